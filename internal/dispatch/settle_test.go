package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// A result is worth several tries: what was sent and not written is sent again when the lease ends.
func TestSettleIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		s, start := newStore(), time.Now()
		s.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			at = append(at, time.Since(start))
			if len(at) < 5 {
				return dispatch.Settlement{}, errAway
			}
			return dispatch.Settlement{}, nil
		}
		b := deliver(dispatch.Config{}, s, granted(), sends)
		ms := time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 150 * ms}, at); diff != "" {
			t.Errorf("settled at these times (-want +got):\n%s", diff)
		}
		for _, o := range s.settled() {
			if o.Disposition != dispatch.Delivered {
				t.Errorf("one of the tries says %+v", o)
			}
		}
		if len(b.journal.sends()) != 1 {
			t.Errorf("sent %d times, want once", len(b.journal.sends()))
		}
	})
}

func TestSettleIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
		return dispatch.Settlement{}, errAway
	}
	hangs := func(ctx context.Context, _ *dispatch.Grant, _ dispatch.Outcome) (dispatch.Settlement, error) {
		<-ctx.Done()
		return dispatch.Settlement{}, errors.Join(errAway, ctx.Err())
	}
	for name, test := range map[string]struct {
		cfg    dispatch.Config
		settle func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error)
		want   time.Duration
	}{
		"a store that refuses, by default": {settle: fails, want: 10 * time.Minute},
		"a store that refuses, as set": {
			cfg: dispatch.Config{SettleTimeout: 100 * time.Millisecond}, settle: fails, want: 100 * time.Millisecond,
		},
		"a store that hangs": {settle: hangs, want: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := newStore(), time.Now()
				s.settle = test.settle
				b := deliver(test.cfg, s, granted(), sends)
				wantClock(t, "given up", start, test.want)
				if extended := len(s.extensions()); test.want > time.Minute && extended < 150 {
					t.Errorf("the lease was extended %d times, want one every few seconds", extended)
				}
				log := strings.Join(b.ledger.Lines(), "\n")
				for _, part := range []string{
					errAway.Error(), context.DeadlineExceeded.Error(), "settle notification n-1: ", "outcome=delivered",
				} {
					if !strings.Contains(log, part) {
						t.Errorf("it logs %s, which does not tell %q", log, part)
					}
				}
				b.wantTokens(t, 0)
			})
		})
	}
}

// While a result can't be written, its delivery stays this worker's; and once the dispatcher stops, the tries end soon.
func TestWhileItCantBeSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			return dispatch.Settlement{}, errAway
		}
		s.extend = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s.wake("u-1", grant(granted()))
		start := time.Now()
		b := newBench(dispatch.Config{ReleaseTimeout: 5 * time.Second}, s, sends)
		pass(14 * time.Second)
		b.wantTokens(t, 1)
		extended := s.extensions()
		for i, at := range extended {
			if i > 0 && at.Sub(extended[i-1]) > 5*time.Second {
				t.Errorf("extended after %s and %s", extended[i-1].Sub(start), at.Sub(start))
			}
		}
		if len(extended) < 3 {
			t.Errorf("extended %d times", len(extended))
		}
		stopped := time.Now()
		b.Stop()
		wantClock(t, "stopped", stopped, 5*time.Second)
		b.wantTokens(t, 0)
	})
}

// A result of somebody else's grant is told, and nothing comes of it.
func TestStaleResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			return dispatch.Settlement{Stale: true}, nil
		}
		b := deliver(dispatch.Config{}, s, granted(), sends)
		want := []string{
			`level=WARN msg="a delivery finished after its lease had ended; discarded the result, because the notification has been granted again or has ended" notification_id=n-1 attempt=1`,
		}
		if diff := cmp.Diff(want, b.ledger.Lines()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
	})
}
