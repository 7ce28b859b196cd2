package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// What each class of response does to a notification that has failed so many times before. Three failures end it, and
// the wait after the n-th is n seconds; a provider that is busy is asked again after one to two.
func TestDispositions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failures int
		err      error
		want     dispatch.Outcome
	}{
		"delivered": {want: dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}},
		"delivered at the last": {
			failures: 2, want: dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"},
		},
		"permanent": {
			err:  &push.Error{Class: push.Permanent, Code: "400"},
			want: dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true, Refund: true},
		},
		"permanent, asked to wait": {
			err:  &push.Error{Class: push.Permanent, Code: "400", RetryAfter: time.Hour},
			want: dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true, Refund: true},
		},
		"permanent, unsent": {
			err: &push.Error{Class: push.Permanent, Code: "egress_refused", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "permanent: egress_refused", Failure: true, Refund: true,
			},
		},
		"permanent, another device had it before": {
			err: &push.Error{Class: push.Permanent, Code: "400", Partial: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Delivered, Reason: "delivered to some devices, last permanent: 400", Refund: true,
			},
		},
		"ambiguous, responded": {
			err: &push.Error{Class: push.Ambiguous, Code: "502"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "ambiguous: 502", RetryAfter: time.Second, Failure: true,
			},
		},
		"target gone": {
			err: &push.Error{Class: push.TargetGone, Code: "410"},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "target_gone: 410", Failure: true, Refund: true,
			},
		},
		"target gone, unsent": {
			failures: 1,
			err:      &push.Error{Class: push.TargetGone, Code: "no_device", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "target_gone: no_device", Failure: true, Refund: true,
			},
		},

		"transient, first": {
			err: &push.Error{Class: push.Transient, Code: "503"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Second, Failure: true,
				Behind: true, Refund: true,
			},
		},
		"transient, second": {
			failures: 1,
			err:      &push.Error{Class: push.Transient, Code: "503"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 2 * time.Second, Failure: true,
				Behind: true, Refund: true,
			},
		},
		"transient, third and last": {
			failures: 2,
			err:      &push.Error{Class: push.Transient, Code: "503"},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "max_attempts, last transient: 503", Failure: true, Refund: true,
			},
		},
		"transient, beyond": {
			failures: 7,
			err:      &push.Error{Class: push.Transient, Code: "503"},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "max_attempts, last transient: 503", Failure: true, Refund: true,
			},
		},
		"transient, asked to wait": {
			err: &push.Error{Class: push.Transient, Code: "503", RetryAfter: time.Minute},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute, Failure: true,
				Behind: true, Refund: true,
			},
		},
		"transient, asked for less": {
			failures: 1,
			err:      &push.Error{Class: push.Transient, Code: "503", RetryAfter: time.Second},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 2 * time.Second, Failure: true,
				Behind: true, Refund: true,
			},
		},
		"transient, unsent": {
			err: &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry,
				Reason:      "transient: connection_refused",
				RetryAfter:  time.Second, Failure: true, Refund: true, Behind: true,
			},
		},
		"transient, unsent, last": {
			failures: 2,
			err:      &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed,
				Reason:      "max_attempts, last transient: connection_refused",
				Failure:     true, Refund: true,
			},
		},

		"throttled": {
			err: &push.Error{Class: push.Throttled, Code: "429"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 1500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"throttled, asked to wait": {
			err: &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Hour},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Hour, Behind: true, Refund: true,
			},
		},
		"throttled, asked for less": {
			err: &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Millisecond},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 1500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"throttled, no failures left": {
			failures: 2,
			err:      &push.Error{Class: push.Throttled, Code: "429"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 1500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"throttled, unsent": {
			err: &push.Error{Class: push.Throttled, Code: "quota", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: quota", RetryAfter: 1500 * time.Millisecond, Refund: true,
				Untried: true,
			},
		},
		"credentials refused": {
			err: &push.Error{Class: push.CredentialsRefused, Code: "401"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "credentials_refused: 401", RetryAfter: time.Minute, Refund: true,
				Behind: true,
			},
		},
		"refused, but one took it": {
			err: &push.Error{Class: push.CredentialsRefused, Code: "401", Partial: true, Reached: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "credentials_refused: 401", RetryAfter: time.Minute, Behind: true,
			},
		},
		"already delivered": {
			failures: 1,
			err:      &push.Error{Class: push.AlreadyDelivered, Code: "devices", Unsent: true},
			want:     dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered", Refund: true},
		},
		"the last of some, unsent": {
			failures: 2,
			err:      &push.Error{Class: push.Transient, Code: "dns", Unsent: true, Partial: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Delivered, Reason: "delivered to some devices, last transient: dns", Refund: true,
			},
		},
		"ambiguous": {
			err: &push.Error{Class: push.Ambiguous, Code: "timeout"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "ambiguous: timeout", RetryAfter: time.Second, Failure: true,
			},
		},
		"ambiguous, last": {
			failures: 2,
			err:      &push.Error{Class: push.Ambiguous, Code: "timeout"},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "max_attempts, last ambiguous: timeout", Failure: true,
			},
		},
		"without class": {
			err: errors.New("something"),
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "ambiguous: unknown", RetryAfter: time.Second, Failure: true,
			},
		},
		"without class, out of time": {
			err: fmt.Errorf("post: %w", context.DeadlineExceeded),
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "ambiguous: timeout", RetryAfter: time.Second, Failure: true,
			},
		},
		"wrapped, its class is kept": {
			err:  fmt.Errorf("post: %w", &push.Error{Class: push.Permanent, Code: "413"}),
			want: dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 413", Failure: true, Refund: true},
		},
		"a class that does not exist": {
			err: &push.Error{Class: 99, Code: "odd"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "invalid: odd", RetryAfter: time.Second, Failure: true,
			},
		},
		"a class that was not thought": {
			failures: 2,
			err:      &push.Error{Code: "odd"},
			want: dispatch.Outcome{
				Disposition: dispatch.Failed, Reason: "max_attempts, last invalid: odd", Failure: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, g := newStore(), granted()
				g.Failures = test.failures
				deliver(dispatch.Config{}, s, g, func(context.Context, push.Message) error { return test.err })
				if diff := cmp.Diff([]dispatch.Outcome{test.want}, s.settled()); diff != "" {
					t.Errorf("outcomes differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A target that always asks to slow down is left alone longer and longer, and not for ever.
func TestThrottledResponsesBackOffAndEnd(t *testing.T) {
	t.Parallel()
	const maxDefer = 10 * time.Minute
	busy := &push.Error{Class: push.Throttled, Code: "429"}
	for name, test := range map[string]struct {
		attempt, failures int
		waited            time.Duration
		retry             notification.Retry // instead of the schedule
		err               *push.Error
		want              dispatch.Outcome
	}{
		"first": {
			attempt: 1, err: busy,
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 1500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"seventh": {
			attempt: 7, err: busy,
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 64500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"after failures": {
			attempt: 7, failures: 3, err: busy,
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 8500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"just in time": {
			attempt: 3,
			waited:  maxDefer - 4500*time.Millisecond,
			err:     busy,
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 4500 * time.Millisecond,
				Behind: true, Refund: true,
			},
		},
		"too late": {
			attempt: 3,
			waited:  maxDefer - 4*time.Second,
			err:     busy,
			want: dispatch.Outcome{
				Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429", Refund: true,
			},
		},
		"asked for too long": {
			attempt: 1,
			err:     &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Hour},
			want: dispatch.Outcome{
				Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429", Refund: true,
			},
		},
		"some devices have it": {
			attempt: 1, waited: maxDefer,
			err: &push.Error{Class: push.Throttled, Code: "429", Partial: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Delivered, Reason: "delivered to some devices, last throttled: 429",
				Refund: true,
			},
		},
		"the policy's bounds hold": {
			attempt: 2, err: busy, retry: notification.Retry{MinBackoff: 2 * time.Second, MaxBackoff: 6 * time.Second},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 4 * time.Second,
				Behind: true, Refund: true,
			},
		},
		"nobody was asked, and the policy's bounds are long": {
			attempt: 2, err: &push.Error{Class: push.Throttled, Code: "quota", Unsent: true},
			retry: notification.Retry{MinBackoff: time.Minute, MaxBackoff: time.Hour},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: quota", RetryAfter: 1500 * time.Millisecond, Refund: true,
				Untried: true,
			},
		},
		"refused for the credentials, just in time": {
			attempt: 3, waited: maxDefer - time.Minute,
			err: &push.Error{Class: push.CredentialsRefused, Code: "403"},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "credentials_refused: 403", RetryAfter: time.Minute, Refund: true,
				Behind: true,
			},
		},
		"refused for the credentials, too late": {
			attempt: 3, waited: maxDefer - time.Second,
			err: &push.Error{Class: push.CredentialsRefused, Code: "403", Reply: "no"},
			want: dispatch.Outcome{
				Disposition: dispatch.Expired, Reason: "max_defer, last credentials_refused: 403", Refund: true,
				Reply: "no",
			},
		},
		"nobody was asked": {
			attempt: 3, waited: maxDefer,
			err: &push.Error{Class: push.Throttled, Code: "quota", Unsent: true},
			want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "throttled: quota", RetryAfter: 1500 * time.Millisecond, Refund: true,
				Untried: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, g := newStore(), granted()
				g.Attempt, g.Failures = test.attempt, test.failures
				g.WaitsSince = g.AdmittedAt.Add(-test.waited)
				cfg := dispatch.Config{MaxDefer: func(string) time.Duration { return maxDefer }}
				if test.retry.MaxBackoff > 0 {
					cfg.Settings = func(string, notification.Channel) dispatch.Settings {
						return dispatch.Settings{DeliverySettings: notification.DeliverySettings{Retry: test.retry}}
					}
				}
				deliver(cfg, s, g, func(context.Context, push.Message) error { return test.err })
				if diff := cmp.Diff([]dispatch.Outcome{test.want}, s.settled()); diff != "" {
					t.Errorf("outcomes differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestObserverIsToldTheClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := deliver(dispatch.Config{}, newStore(), granted(), func(context.Context, push.Message) error {
			pass(2 * time.Second)
			return &push.Error{Class: push.TargetGone, Code: "410"}
		})
		want := []sent{{ID: "n-1", Provider: 2 * time.Second, EndToEnd: 2 * time.Second, Class: "target_gone"}}
		if diff := cmp.Diff(want, b.journal.Sends); diff != "" {
			t.Errorf("the observer was told otherwise (-want +got):\n%s", diff)
		}
	})
}

func TestPanicOfASenderIsAnAmbiguousDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("u-1", grant(granted(), granted(), granted()))
		b := newBench(dispatch.Config{Concurrency: 1}, s, func(context.Context, push.Message) error {
			var nothing map[string]int
			nothing["boom"]++ //nolint:staticcheck // the panic is what is tested
			return nil
		})
		pass(time.Second)
		b.Stop()
		retry := dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "ambiguous: panic", RetryAfter: time.Second, Failure: true,
		}
		if diff := cmp.Diff([]dispatch.Outcome{retry, retry, retry}, s.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
	})
}

// A sender that does not come back by itself is ended by its context, and what it did is unknown.
func TestDeliveryIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  dispatch.Config
		want time.Duration
	}{
		"by default": {want: 10 * time.Second},
		"as set": {
			cfg: dispatch.Config{Settings: func(string, notification.Channel) dispatch.Settings {
				s := retries("", "")
				s.Timeout = time.Minute
				return s
			}, DrainTimeout: time.Hour}, want: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := newStore(), time.Now()
				deliver(test.cfg, s, granted(), func(ctx context.Context, _ push.Message) error {
					<-ctx.Done()
					return ctx.Err()
				})
				wantClock(t, "the delivery ended", start, test.want)
				if outcomes := s.settled(); len(outcomes) != 1 || outcomes[0].Reason != "ambiguous: timeout" {
					t.Errorf("settled %+v, want a time-out", outcomes)
				}
			})
		})
	}
}
