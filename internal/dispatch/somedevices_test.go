package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
)

// toSome is the end of a notification that some devices have.
func toSome(last string, refund bool) dispatch.Outcome {
	return dispatch.Outcome{
		Disposition: dispatch.Delivered, Reason: "delivered to some devices, last " + last, Refund: refund,
	}
}

// A notification that some devices have does not end as expired, whatever ends it: whoever sends an expired one again
// reaches those devices twice.
func TestWhatSomeDevicesHaveDoesNotExpire(t *testing.T) {
	t.Parallel()
	const maxDefer = 10 * time.Minute
	held := push.Error{Class: push.Throttled, Code: "breaker_open", Unsent: true, RetryAfter: 20 * time.Second}
	busy := push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Minute}
	refused := push.Error{Class: push.CredentialsRefused, Code: "401"}
	away := push.Error{Class: push.Transient, Code: "503", Reply: "busy"} // tried again after a second
	for name, test := range map[string]struct {
		err                  push.Error
		none                 bool // no device has it
		waited, expires, own time.Duration
		want                 dispatch.Outcome
	}{
		"held beyond max_defer": {
			err: held, waited: maxDefer - 20*time.Second + 1, want: toSome("throttled: breaker_open", true),
		},
		"held until max_defer": {err: held, waited: maxDefer - 20*time.Second, want: dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "throttled: breaker_open", RetryAfter: 20 * time.Second, Refund: true,
			Untried: true,
		}},
		"held beyond max_defer, no device has it": {err: held, none: true, waited: maxDefer, want: dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: "throttled: breaker_open", RetryAfter: 20 * time.Second, Refund: true,
			Untried: true,
		}},
		"held beyond expires_at": {err: held, expires: 20 * time.Second, want: toSome("throttled: breaker_open", true)},
		"busy beyond expires_at": {err: busy, expires: time.Minute, want: toSome("throttled: 429", true)},
		"refused beyond expires_at": {
			err: refused, expires: time.Minute, want: toSome("credentials_refused: 401", true),
		},
		"away beyond expires_at": {err: away, expires: time.Second, want: dispatch.Outcome{
			Disposition: dispatch.Delivered, Reason: "delivered to some devices, last transient: 503", Reply: "busy",
			Refund: true,
		}},
		"away beyond expires_at, after a long attempt": {
			err: away, own: 5 * time.Second, expires: 6 * time.Second, want: dispatch.Outcome{
				Disposition: dispatch.Delivered, Reason: "delivered to some devices, last transient: 503", Reply: "busy",
				Refund: true,
			},
		},
		"away until just before": {
			err: away, own: 5 * time.Second, expires: 6*time.Second + 1, want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Second, Failure: true,
				Reply: "busy", Behind: true, Refund: true,
			},
		},
		"away beyond expires_at, no device has it: its store ends it": {
			err: away, none: true, expires: time.Second, want: dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Second, Failure: true,
				Reply: "busy", Behind: true, Refund: true,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, g := newStore(), granted()
				g.WaitsSince = g.AdmittedAt.Add(-test.waited)
				if test.expires > 0 {
					g.Notification.ExpiresAt = g.AdmittedAt.Add(test.expires)
				}
				cfg := dispatch.Config{MaxDefer: func(string) time.Duration { return maxDefer }}
				deliver(cfg, s, g, func(context.Context, push.Message) error {
					if test.own > 0 {
						pass(test.own)
					}
					failure := test.err
					failure.Partial = !test.none
					return &failure
				})
				if diff := cmp.Diff([]dispatch.Outcome{test.want}, s.settled(),
					cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Took" }, cmp.Ignore())); diff != "" {
					t.Errorf("outcomes differ (-want +got):\n%s", diff)
				}
			})
		})
	}
}
