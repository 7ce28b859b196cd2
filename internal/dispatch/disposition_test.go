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
	"github.com/pacer-notify/pacer/internal/push"
)

// What each class of response does to a notification that has failed so many times before. Three failures end it, and the
// wait after the n-th is n seconds.
func TestFates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failures int
		err      error
		want     dispatch.Outcome
	}{
		"delivered":                {0, nil, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}},
		"delivered at the last":    {2, nil, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}},
		"permanent":                {0, &push.Error{Class: push.Permanent, Code: "400"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true}},
		"permanent, asked to wait": {0, &push.Error{Class: push.Permanent, Code: "400", RetryAfter: time.Hour}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true}},
		"permanent, unsent":        {0, &push.Error{Class: push.Permanent, Code: "egress_refused", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: egress_refused", Failure: true, Refund: true}},
		"target gone":              {0, &push.Error{Class: push.TargetGone, Code: "410"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "target_gone: 410", Failure: true}},
		"target gone, unsent":      {1, &push.Error{Class: push.TargetGone, Code: "no_device", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "target_gone: no_device", Failure: true, Refund: true}},

		"transient, first":          {0, &push.Error{Class: push.Transient, Code: "503"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Second, Failure: true}},
		"transient, second":         {1, &push.Error{Class: push.Transient, Code: "503"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 2 * time.Second, Failure: true}},
		"transient, third and last": {2, &push.Error{Class: push.Transient, Code: "503"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "max_attempts, last transient: 503", Failure: true}},
		"transient, beyond":         {7, &push.Error{Class: push.Transient, Code: "503"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "max_attempts, last transient: 503", Failure: true}},
		"transient, asked to wait":  {0, &push.Error{Class: push.Transient, Code: "503", RetryAfter: time.Minute}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute, Failure: true}},
		"transient, asked for less": {1, &push.Error{Class: push.Transient, Code: "503", RetryAfter: time.Second}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 2 * time.Second, Failure: true}},
		"transient, unsent":         {0, &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: connection_refused", RetryAfter: time.Second, Failure: true, Refund: true}},
		"transient, unsent, last":   {2, &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "max_attempts, last transient: connection_refused", Failure: true, Refund: true}},

		"throttled":                    {0, &push.Error{Class: push.Throttled, Code: "429"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Second, Behind: true}},
		"throttled, asked to wait":     {0, &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Hour}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Hour, Behind: true}},
		"throttled, asked for less":    {0, &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Millisecond}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Second, Behind: true}},
		"throttled, no failures left":  {2, &push.Error{Class: push.Throttled, Code: "429"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Second, Behind: true}},
		"throttled, unsent":            {0, &push.Error{Class: push.Throttled, Code: "quota", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: quota", RetryAfter: time.Second, Refund: true, Untried: true}},
		"credentials refused":          {0, &push.Error{Class: push.CredentialsRefused, Code: "401"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "credentials_refused: 401", RetryAfter: time.Minute, Refund: true}},
		"refused, but one took it":     {0, &push.Error{Class: push.CredentialsRefused, Code: "401", Partial: true, Reached: true}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "credentials_refused: 401", RetryAfter: time.Minute}},
		"already delivered":            {1, &push.Error{Class: push.AlreadyDelivered, Code: "devices", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered", Refund: true}},
		"the last of some, unsent":     {2, &push.Error{Class: push.Transient, Code: "dns", Unsent: true, Partial: true}, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered to some devices, last transient: dns", Refund: true}},
		"ambiguous":                    {0, &push.Error{Class: push.Ambiguous, Code: "timeout"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "ambiguous: timeout", RetryAfter: time.Second, Failure: true}},
		"ambiguous, last":              {2, &push.Error{Class: push.Ambiguous, Code: "timeout"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "max_attempts, last ambiguous: timeout", Failure: true}},
		"without class":                {0, errors.New("something"), dispatch.Outcome{Disposition: dispatch.Retry, Reason: "ambiguous: unknown", RetryAfter: time.Second, Failure: true}},
		"without class, out of time":   {0, fmt.Errorf("post: %w", context.DeadlineExceeded), dispatch.Outcome{Disposition: dispatch.Retry, Reason: "ambiguous: timeout", RetryAfter: time.Second, Failure: true}},
		"wrapped, its class is kept":   {0, fmt.Errorf("post: %w", &push.Error{Class: push.Permanent, Code: "413"}), dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 413", Failure: true}},
		"a class that does not exist":  {0, &push.Error{Class: 99, Code: "odd"}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "invalid: odd", RetryAfter: time.Second, Failure: true}},
		"a class that was not thought": {2, &push.Error{Code: "odd"}, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "max_attempts, last invalid: odd", Failure: true}},
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
		err               *push.Error
		want              dispatch.Outcome
	}{
		"first":                {1, 0, 0, busy, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: time.Second, Behind: true}},
		"seventh":              {7, 0, 0, busy, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 7 * time.Second, Behind: true}},
		"after failures":       {7, 3, 0, busy, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 4 * time.Second, Behind: true}},
		"just in time":         {3, 0, maxDefer - 3*time.Second, busy, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 3 * time.Second, Behind: true}},
		"too late":             {3, 0, maxDefer - 2*time.Second, busy, dispatch.Outcome{Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429"}},
		"asked for too long":   {1, 0, 0, &push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Hour}, dispatch.Outcome{Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429"}},
		"some devices have it": {1, 0, maxDefer, &push.Error{Class: push.Throttled, Code: "429", Partial: true}, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered to some devices, last throttled: 429"}},
		"nobody was asked":     {3, 0, maxDefer, &push.Error{Class: push.Throttled, Code: "quota", Unsent: true}, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "throttled: quota", RetryAfter: time.Second, Refund: true, Untried: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, g := newStore(), granted()
				g.Attempt, g.Failures = test.attempt, test.failures
				g.Notification.CreatedAt = g.AdmittedAt.Add(-test.waited)
				cfg := dispatch.Config{MaxDefer: func(string) time.Duration { return maxDefer }}
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
		retry := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "ambiguous: panic", RetryAfter: time.Second, Failure: true}
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
		"by default": {dispatch.Config{}, 10 * time.Second},
		"as set":     {dispatch.Config{SendTimeout: 250 * time.Millisecond}, 250 * time.Millisecond},
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
