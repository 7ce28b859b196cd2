package agenda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// acceptAll accepts entries of one user in their order, many at a time.
func (w *world) acceptAll(entries []agenda.Entry) {
	w.t.Helper()
	for len(entries) > 0 {
		some := entries[:min(len(entries), scriptLimit)]
		if _, err := w.store.Accept(w.test.Context(), w.store.PartitionOf("ada"), some); err != nil {
			w.t.Fatalf("accept %d: %v", len(some), err)
		}
		entries = entries[len(some):]
	}
}

// However many wait in several categories under a cap, on whatever channels, and are later: each goes at the moment
// that was told of it.
func TestManyUnderACapGoWhenTold(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]uint64{
		"Random": rand.Uint64(),
		// A backlog is read on while others are.
		"SeveralAreReadOn": 9964019206646459314,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manyUnderACap(t, seed)
		})
	}
}

func manyUnderACap(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{})
	marketing := throttle.Rule{Max: 40, Per: time.Second, Kind: throttle.KindNamed, Cap: "marketing"}
	email := throttle.Rule{Max: 8, Per: time.Second, Kind: throttle.KindNamed, Cap: "email", Channels: "email"}
	for category, limit := range map[string]int{"chat": 100, "news": 30, "mail": 25} {
		w.settings[category] = agenda.Settings{MaxDefer: 24 * time.Hour, Plan: throttle.Plan{
			Rules: []throttle.Rule{{Max: limit, Per: time.Second}, marketing, email},
		}}
	}
	var entries, asked []agenda.Entry
	for i := range 2400 {
		e := agenda.Entry{
			ID: fmt.Sprint("n", i), UserID: "ada", Category: []string{"chat", "chat", "news", "mail"}[r.IntN(4)],
			Priority: notification.Priority(2 + r.IntN(2)), Payload: agenda.OnChannel("webhook"),
		}
		if r.IntN(10) == 0 {
			e.Payload = agenda.OnChannel("email")
		}
		if r.IntN(4) == 0 {
			e.SendAt = w.now.Add(time.Duration(1+r.IntN(400)) * 100 * time.Millisecond)
		}
		entries = append(entries, e)
		if r.IntN(20) == 0 || i > 2380 {
			asked = append(asked, e)
		}
	}
	w.acceptAll(entries)
	told := map[string]time.Time{}
	for i, p := range w.promises(asked, len(asked)) {
		told[asked[i].ID] = p.DeliverAt
	}
	begin, wrong := w.now, 0
	for _, g := range w.drain() {
		id := g.Notification.ID
		if at, ok := told[id]; ok && !at.Equal(g.AdmittedAt) {
			wrong++
			t.Errorf("seed %d: %s of %s goes after %s, told was %s", seed, id, g.Category, g.AdmittedAt.Sub(begin),
				at.Sub(begin))
		}
		delete(told, id)
	}
	if len(told) > 0 || len(asked) < 50 {
		t.Errorf("%d of %d never went", len(told), len(asked))
	}
}

// What stands behind more than is read, or beside more categories than are, is told the earliest moment only, and
// nobody who sets a limit to the wait is told that it is kept.
func TestWhatCannotBeToldIsAnEstimate(t *testing.T) {
	t.Parallel()
	rule := throttle.Rule{Max: 10, Per: time.Second, Kind: throttle.KindNamed, Cap: "all"}
	for name, c := range map[string]struct{ each, categories int }{
		"deep": {each: 4000, categories: 1}, "wide": {each: 1, categories: 70},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Client(t), agenda.Settings{
				MaxDefer: 24 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{rule}},
			})
			var entries []agenda.Entry
			for i := range c.each * c.categories {
				entries = append(entries, agenda.Entry{
					ID: fmt.Sprint("n", i), UserID: "ada", Category: fmt.Sprint("c", i%c.categories),
					Priority: notification.PriorityNormal, Payload: agenda.OnChannel("log"),
				})
			}
			w.acceptAll(entries)
			last := entries[len(entries)-1:]
			p := w.promises(last, 1)[0]
			goes := w.now.Add(time.Duration(len(entries)/rule.Max) * rule.Per)
			if !p.Estimate || p.DeliverAt.After(goes) ||
				p.Place > len(entries) || c.each > 1 && p.Place != len(entries) {
				t.Errorf("the last is told %+v, it goes before %s", p, goes)
			}
			if s := w.state(last[0].ID); !s.Estimate || !s.DeliverAt.Equal(p.DeliverAt) {
				t.Errorf("its view says %s, %t", s.DeliverAt, s.Estimate)
			}
			last[0].ID = "new"
			if p := w.promises(last, 0)[0]; !p.Estimate || p.DeliverAt.Before(w.now.Add(time.Second)) {
				t.Errorf("a new one is told %+v", p)
			}
		})
	}
}

// What waits for a paused channel is in nobody's way.
func TestAPausedChannelIsInNobodysWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Minute}}},
	})
	on := func(id, channel string, sendAt time.Time) agenda.Entry {
		return agenda.Entry{
			ID: id, UserID: "ada", Category: "chat", Priority: notification.PriorityNormal, SendAt: sendAt,
			Payload: agenda.OnChannel(notification.Channel(channel)),
		}
	}
	w.acceptAll([]agenda.Entry{on("gone", "log", time.Time{}), on("held", "email", time.Time{})})
	w.serve()
	w.settle(delivered)
	w.paused.Channels = []string{"email"}
	later := w.now.Add(30 * time.Second)
	if p := w.promises([]agenda.Entry{on("new", "log", later)}, 0)[0]; p.Place != 1 ||
		!p.DeliverAt.Equal(start.Add(time.Minute)) {
		t.Errorf("another is told %+v", p)
	}
	if s := w.state("held"); !s.DeliverAt.IsZero() || s.Reason != notification.ReasonPaused {
		t.Errorf("what is held is told %s, %s", s.DeliverAt, s.Reason)
	}
	w.paused = agenda.Paused{Partitions: []int{w.store.PartitionOf("ada")}}
	p := w.promises([]agenda.Entry{on("new", "log", later)}, 0)[0]
	if s := w.state("held"); p.Place > 0 || !p.DeliverAt.IsZero() || !s.DeliverAt.IsZero() ||
		p.Reason != notification.ReasonPaused || s.Reason != notification.ReasonPaused {
		t.Errorf("in a paused partition a new one is told %+v, one that waits %s, %s", p, s.DeliverAt, s.Reason)
	}
}
