package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// running counts how many of n new ones are let go at once.
func (w *world) running(n int, e agenda.Entry) (granted int) {
	w.t.Helper()
	before := len(w.grants)
	for range n {
		w.accept(e)
	}
	w.serve()
	return len(w.grants) - before
}

// change has other settings from now on, and has ada looked at again.
func (w *world) change(settings agenda.Settings) {
	w.t.Helper()
	w.settings[""] = settings
	if err := w.store.Wake(w.test.Context(), w.store.PartitionOf("ada"), "ada"); err != nil {
		w.t.Fatalf("wake: %v", err)
	}
}

// An id may be used again once its notification is no longer kept. What was sent under it counts on, and a refund takes
// back what was sent last.
func TestAnIDThatComesAgainFillsTheWindow(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{MaxDefer: 30 * 24 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{
		{Max: 3, Per: 7 * 24 * time.Hour}, {Max: 4, Per: 7 * 24 * time.Hour, Kind: throttle.KindCap},
	}}})
	again := func() int {
		w.advance(25 * time.Hour)
		forgotten := keyspace.Prefix(w.store.PartitionOf("ada")) + "n:digest"
		if err := w.client.Del(t.Context(), forgotten).Err(); err != nil { // as after the retention
			t.Fatal(err)
		}
		return w.running(1, agenda.Entry{ID: "digest"})
	}
	for day := range 3 {
		if again() != 1 {
			t.Fatalf("on day %d it waits", day)
		}
		if day == 1 { // has no effect, and goes once more
			w.settle(dispatch.Outcome{Disposition: dispatch.Retry, Reason: "no connection", Refund: true})
			w.advance(time.Hour)
			w.serve()
		}
		if len(w.grants) != 1 {
			t.Fatalf("on day %d are in flight: %d", day, len(w.grants))
		}
		w.settle(dispatch.Outcome{Disposition: dispatch.Delivered})
	}
	if again() != 0 {
		t.Fatal("one more than the limit goes")
	}
	if len(w.playUntil(start.Add((24+7*24)*time.Hour))) != 0 {
		t.Error("one more goes before the window of the first has passed")
	}
	if granted := w.drain(); len(granted) != 1 {
		t.Errorf("%d go in the end", len(granted))
	}
}

// A limit that was lowered and raised again finds everything that was admitted meanwhile.
func TestLoweredAndRaisedLimitForgetsNothing(t *testing.T) {
	t.Parallel()
	ten := []throttle.Rule{{Max: 10, Per: time.Hour}}
	for name, lowered := range map[string]throttle.Plan{
		"policy":                   {Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}}},
		"the user's own":           {Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}}, Dormant: ten},
		"the user's own: no limit": {Dormant: ten},
		"fixed window": {
			Algorithm: throttle.FixedWindow, Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Second}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raised := agenda.Settings{
				Plan: throttle.Plan{Algorithm: lowered.Algorithm, Rules: ten}, MaxDefer: 24 * time.Hour,
			}
			w := setup(t, raised)
			if n := w.running(8, agenda.Entry{}); n != 8 {
				t.Fatalf("%d of 8 are let go", n)
			}
			w.change(agenda.Settings{Plan: lowered, MaxDefer: 24 * time.Hour})
			for range 2 {
				w.advance(5 * time.Second)
				if n := w.running(1, agenda.Entry{}); n != 1 {
					t.Fatal("under the lowered limit none is let go")
				}
			}
			w.change(raised)
			w.advance(5 * time.Second)
			if n := w.running(3, agenda.Entry{}); n != 0 {
				t.Errorf("%d more than ten are let go within a minute", n)
			}
		})
	}
}

// A crowd of bypasses makes no log long.
func TestBypassesMakeNoLongLog(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 3, Per: time.Hour}}}, BypassFrom: notification.PriorityLow,
	})
	if n := w.running(300, agenda.Entry{}); n != 300 {
		t.Fatalf("%d of 300 are let go", n)
	}
	const most = 3 + 64 + 2 // the limit, the room for refunds, and how deep the log is
	key := keyspace.Prefix(w.store.PartitionOf("ada")) + "l:chat:ada"
	if n := w.client.ZCard(t.Context(), key).Val(); n == 0 || n > most {
		t.Errorf("the log holds %d, want at most %d", n, most)
	}
}

// What a gap holds back ends by max_defer only when it could not go in time: the window of a fixed_window limit may be
// nearly over by then, and a token bucket full.
func TestAGapEndsNothingThatCanGoInTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		algorithm  throttle.Algorithm
		limit, gap throttle.Rule
		rest       time.Duration // how much later than the first many come
		maxDefer   time.Duration
		want       int
	}{
		"rolling": {
			algorithm: throttle.Rolling, limit: throttle.Rule{Max: 3, Per: 10 * time.Second},
			gap: throttle.Rule{Max: 1, Per: time.Second, Kind: throttle.KindGap}, rest: 8 * time.Second,
			maxDefer: 5 * time.Second, want: 3, // at 8, 9 and 10 s
		},
		"fixed window": {
			algorithm: throttle.FixedWindow, limit: throttle.Rule{Max: 3, Per: 10 * time.Second},
			gap: throttle.Rule{Max: 1, Per: time.Second, Kind: throttle.KindGap}, rest: 8 * time.Second,
			maxDefer: 5 * time.Second, want: 5, // at 8 and 9 s, and from 10 s on in the next window
		},
		"token bucket": {
			algorithm: throttle.TokenBucket, limit: throttle.Rule{Max: 3, Per: 3 * time.Second},
			gap: throttle.Rule{Max: 1, Per: 900 * time.Millisecond, Kind: throttle.KindGap}, rest: time.Minute,
			maxDefer: 3800 * time.Millisecond, want: 5, // every 900 ms
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{
				Plan:     throttle.Plan{Algorithm: c.algorithm, Rules: []throttle.Rule{c.limit, c.gap}},
				MaxDefer: c.maxDefer,
			})
			w.rush(1)
			w.settle(delivered)
			w.advance(c.rest)
			w.rush(10)
			if got := len(w.drain()); got != c.want {
				t.Errorf("%d of 10 went out, want %d", got, c.want)
			}
		})
	}
}
