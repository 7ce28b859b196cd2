package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
)

// What is in hand goes back at once when the dispatcher stops, in rounds of bounded size, and nothing else is asked.
func TestStopGivesWakeupsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 250
		s := newStore()
		for i := range n {
			s.wakeIn(i%2, fmt.Sprint(i), hold(time.Second))
		}
		b := newBench(dispatch.Config{Partitions: 2}, s, sends)
		pass(300 * time.Millisecond)
		before, start := len(s.asks()), time.Now()
		b.Stop()
		b.Stop() // as often as you like
		wantClock(t, "stopped", start, 0)
		released := s.givenBack()
		slices.Sort(released)
		if len(slices.Compact(released)) != n {
			t.Errorf("%d of %d are given back", len(slices.Compact(released)), n)
		}
		for _, r := range s.asks()[before:] {
			if len(r.Wakeups)+r.Pull+r.Capacity > 0 || len(r.Release) == 0 || len(r.Release) > 100 {
				t.Errorf("once stopping it asks for %d, pulls %d, releases %d", len(r.Wakeups), r.Pull, len(r.Release))
			}
		}
		pass(time.Minute)
		if n := len(s.asks()) - before; n != 4 {
			t.Errorf("%d rounds, want two of each partition", n)
		}
	})
}

// A store that is away is told until ReleaseTimeout.
func TestReleaseTimeoutEndsTheTries(t *testing.T) {
	t.Parallel()
	for name, inRound := range map[string]bool{"idle": false, "in a round": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var away atomic.Bool
				s.before = func(context.Context, dispatch.TakeRequest) error {
					if away.Load() {
						return errAway
					}
					return nil
				}
				s.wake("u-1", hold(time.Second))
				s.wake("u-2", hold(time.Hour))
				b := newBench(dispatch.Config{ReleaseTimeout: 3 * time.Second}, s, sends)
				pass(500 * time.Millisecond)
				away.Store(true)
				if inRound {
					pass(time.Second)
				}
				start := time.Now()
				b.Stop()
				wantClock(t, "stopped", start, 3*time.Second)
				b.wantTokens(t, 0)
				if log := strings.Join(b.ledger.Lines(), "\n"); !strings.Contains(log, "did not reply in time") {
					t.Errorf("it logs %s", log)
				}
			})
		})
	}
}

// A dispatcher that waits for tokens stops at once.
func TestStopWhileWaitingForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("busy", grant(granted()))
		b := newBench(dispatch.Config{
			Concurrency: 1, Hold: time.Hour, DrainTimeout: time.Minute,
		}, s, newGauge().slow(10*time.Second))
		b.wantTokens(t, 1)
		s.wake("u-1", grant(granted()))
		pass(time.Second)
		before := len(s.asks())
		b.Stop()
		if len(s.asks()) != before || len(s.settled()) != 1 {
			t.Errorf("%d more rounds, %d settled; want none and one", len(s.asks())-before, len(s.settled()))
		}
	})
}

// Deliveries in flight are neither interrupted nor lost by a stop, which waits for them.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var during error
		s := newStore()
		s.settle = func(ctx context.Context, _ *dispatch.Grant, _ dispatch.Outcome) (dispatch.Settlement, error) {
			return dispatch.Settlement{}, ctx.Err()
		}
		s.wake("u-1", grant(granted()))
		b := newBench(dispatch.Config{}, s, func(ctx context.Context, _ push.Message) error {
			pass(7 * time.Second)
			during = ctx.Err()
			return nil
		})
		b.wantTokens(t, 1)
		start := time.Now()
		b.Stop()
		wantClock(t, "stopped", start, 7*time.Second)
		outcomes := s.settled()
		if during != nil || len(outcomes) != 1 || outcomes[0].Disposition != dispatch.Delivered {
			t.Errorf("interrupted: %v; settled %+v, want delivered, once", during, outcomes)
		}
		b.wantTokens(t, 0)
		if log := b.ledger.Lines(); log != nil {
			t.Errorf("it logs %q", log)
		}
	})
}

func TestDrainEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("u-1", grant(granted()))
		b := newBench(dispatch.Config{DrainTimeout: 2 * time.Second}, s, func(context.Context, push.Message) error {
			pass(7 * time.Second)
			return nil
		})
		b.wantTokens(t, 1)
		start := time.Now()
		b.Stop()
		wantClock(t, "stopped", start, 2*time.Second)
		if log := b.ledger.Lines(); len(log) != 1 || !strings.Contains(log[0], "in_flight=1") {
			t.Errorf("it logs %q", log)
		}
		b.AwaitDeliveries()
		if len(s.settled()) != 1 {
			t.Errorf("settled %+v, want once", s.settled())
		}
	})
}

// What was granted by the last round is delivered.
func TestStopDuringARound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.after = func(context.Context, dispatch.TakeRequest) error { pass(100 * time.Millisecond); return nil }
		s.wake("u-1", grant(granted()))
		b := newBench(dispatch.Config{}, s, sends)
		s.wake("u-2")
		pass(150 * time.Millisecond)
		b.Stop()
		if len(b.journal.sends()) != 1 {
			t.Errorf("%d sent, want 1", len(b.journal.sends()))
		}
		b.wantTokens(t, 0)
	})
}

func TestStopWithoutStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		s := newStore()
		dispatch.New(dispatch.Config{Log: slog.New(slog.DiscardHandler)}, s, s, nil).Stop()
	})
}

// A store does not respond, and its driver does not heed the context of a round either. Stop waits for no longer than
// for deliveries.
func TestStopWaitsForNoDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		goOn, away := make(chan struct{}), atomic.Bool{}
		s.before = func(context.Context, dispatch.TakeRequest) error {
			if away.Load() {
				<-goOn
			}
			return nil
		}
		b := newBench(dispatch.Config{DrainTimeout: 20 * time.Second}, s, newGauge().slow(time.Second))
		away.Store(true)
		s.wake("u-1", grant(granted()))
		pass(time.Minute)
		start := time.Now()
		b.Stop()
		wantClock(t, "stopped", start, 20*time.Second)
		if log := strings.Join(b.ledger.Lines(), "\n"); !strings.Contains(log, "stopped before") {
			t.Errorf("it logs %s", log)
		}
		close(goOn)
	})
}
