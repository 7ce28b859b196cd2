package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A grant says for how long its notification might have gone already: after 34 seconds in which nobody worked, 34
// seconds, whatever it had to wait for before.
func TestAGrantKnowsItsSlot(t *testing.T) {
	t.Parallel()
	limited := func(algorithm throttle.Algorithm) agenda.Settings {
		return agenda.Settings{Plan: throttle.Plan{
			Algorithm: algorithm, Rules: []throttle.Rule{{Max: 1, Per: 2 * time.Second}},
		}}
	}
	rush := func(w *world) { w.rush(2) }
	retry := func(o dispatch.Outcome) func(*world) {
		return func(w *world) {
			w.rush(1)
			o.Disposition, o.RetryAfter = dispatch.Retry, 2*time.Second
			w.settle(o)
		}
	}
	for name, c := range map[string]struct {
		settings agenda.Settings
		do       func(*world) // until two seconds from now nothing may go
		then     func(*world)
		late     time.Duration
	}{
		"rolling":      {settings: limited(throttle.Rolling), do: rush, late: 34 * time.Second},
		"fixed window": {settings: limited(throttle.FixedWindow), do: rush, late: 34 * time.Second},
		"token bucket": {settings: limited(throttle.TokenBucket), do: rush, late: 34 * time.Second},
		"never blocked": {do: func(w *world) {
			w.advance(2 * time.Second)
			w.accept(agenda.Entry{})
		}, late: 36 * time.Second},
		"scheduled": {
			do: func(w *world) { w.accept(agenda.Entry{SendAt: w.now.Add(2 * time.Second)}) }, late: 34 * time.Second,
		},
		"retried":               {do: retry(dispatch.Outcome{Failure: true}), late: 34 * time.Second},
		"held for its provider": {do: retry(dispatch.Outcome{Untried: true, Refund: true}), late: 34 * time.Second},
		"paused": {settings: agenda.Settings{Paused: 2 * time.Second}, do: func(w *world) {
			w.accept(agenda.Entry{})
			w.serve()
		}, then: func(w *world) { w.change(agenda.Settings{MaxDefer: time.Hour}) }, late: 34 * time.Second},
		"it expires while its user begins again": {
			settings: agenda.Settings{Plan: throttle.Plan{
				Rules: []throttle.Rule{{Max: 1, Per: 2 * time.Second}}, Spread: 30 * time.Minute,
				Closed: night(time.Second, 20*time.Minute),
			}},
			do: func(w *world) {
				w.rush(1)
				w.accept(agenda.Entry{ExpiresAt: start.Add(25 * time.Minute)}) // so it may go from 24m on
				w.advance(24*time.Minute - 2*time.Second)
			},
			late: 34 * time.Second,
		},
		"a limit that was raised": {
			settings: agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}},
			do:       rush,
			then: func(w *world) {
				w.change(agenda.Settings{MaxDefer: time.Hour})
				if err := w.store.Wake(t.Context(), dispatch.PartitionOf("ada", partitions), "ada"); err != nil {
					t.Fatal(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Client(t), c.settings)
			c.do(w)
			before := len(w.grants)
			w.advance(36 * time.Second)
			if c.then != nil {
				c.then(w)
			}
			w.serve()
			if len(w.grants) != before+1 {
				t.Fatalf("%d grants after %d", len(w.grants), before)
			}
			if g := w.grants[before]; g.SlotIn != -c.late {
				t.Errorf("its slot was %s ago, want %s", -g.SlotIn, c.late)
			}
		})
	}
}
