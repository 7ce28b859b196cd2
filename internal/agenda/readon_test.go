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
