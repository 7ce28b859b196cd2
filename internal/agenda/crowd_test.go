package agenda_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// crowdRules are 20 per second with a gap of 10 ms.
var crowdRules = []throttle.Rule{
	{Max: 20, Per: time.Second}, {Max: 1, Per: 10 * time.Millisecond, Kind: throttle.KindGap},
}

// A crowd goes as few digests: so many wake-ups, and at the pace of the limit.
func TestCrowdAsDigests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 5 * time.Minute}}}, MaxDefer: 24 * time.Hour,
		Digest: &player.Digest{MaxItems: 100, Alone: notification.PriorityHigh},
	})
	for range 10_000 {
		w.accept(agenda.Entry{})
	}
	grants := w.drain()
	items := len(grants)
	for _, g := range grants {
		items += len(g.Items)
	}
	if len(grants) != 100 || items != 10_000 || w.now.Sub(start) != 99*5*time.Minute || w.pulls > 100 {
		t.Errorf("%d went in %d digests, by %d pulls, until %s", items, len(grants), w.pulls, w.now.Sub(start))
	}
}

// A crowd costs one wake-up for all of it, drains at the pace that its limits allow, in order, and is counted exactly.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2, 400, 800} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Client(t), agenda.Settings{Plan: throttle.Plan{Rules: crowdRules}})
			for range size {
				w.accept(agenda.Entry{})
			}
			grants := w.drain()
			if len(grants) != size {
				t.Fatalf("%d of %d delivered", len(grants), size)
			}
			if n := violations(grants, crowdRules...); n > 0 {
				t.Errorf("%d violations", n)
			}
			for i, g := range grants {
				if want := fmt.Sprintf("n%d", i+1); g.Notification.ID != want {
					t.Fatalf("delivery %d is %s, want %s", i, g.Notification.ID, want)
				}
			}
			if most := 1 + size/20; w.pulls > most {
				t.Errorf("%d pulls for %d, want at most %d", w.pulls, size, most)
			}
			optimum := time.Duration((size-1)/20)*time.Second + time.Duration((size-1)%20)*10*time.Millisecond
			if took := w.now.Sub(start); took > optimum+5*time.Millisecond {
				t.Errorf("it took %s, the optimum is %s", took, optimum)
			}
			total := w.total()
			if total.Totals.Delivered != int64(size) || total.Queued != 0 || total.Deferred != 0 ||
				total.Sending != 0 || total.UsersDeferred != 0 {
				t.Errorf("counts: %+v", total)
			}
			deferred := 0
			for _, g := range grants {
				deferred += w.state(g.Notification.ID).Deferrals
			}
			if int64(deferred) != total.Totals.Deferrals {
				t.Errorf("%d were deferred, the total is %d", deferred, total.Totals.Deferrals)
			}
			if left := w.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// Through a cap over several categories as many wake-ups go as through one, and what is more urgent or came first goes
// first.
func TestCapOverCategories(t *testing.T) {
	t.Parallel()
	for _, categories := range []int{1, 3, 10} {
		t.Run(fmt.Sprint(categories), func(t *testing.T) {
			t.Parallel()
			limit := throttle.Rule{Max: 20, Per: time.Second, Kind: throttle.KindCap}
			settings := agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{limit}}}
			w := newWorld(t, t, redistest.Client(t), settings)
			const size = 300
			var order []string
			for i := range size {
				priority := notification.PriorityNormal
				if i%7 == 3 {
					priority = notification.PriorityHigh
				}
				id := w.accept(agenda.Entry{Category: fmt.Sprintf("c%d", i%categories), Priority: priority})
				order = append(order, fmt.Sprintf("%d %04d %s", priority, i, id))
			}
			slices.Sort(order)
			grants := w.drain()
			if len(grants) != size {
				t.Fatalf("%d of %d delivered", len(grants), size)
			}
			for i, g := range grants {
				var priority, number int
				var id string
				if _, err := fmt.Sscanf(order[i], "%d %d %s", &priority, &number, &id); err != nil {
					t.Fatal(err)
				}
				if g.Notification.ID != id {
					t.Fatalf("delivery %d is %s, want %s", i, g.Notification.ID, id)
				}
			}
			if n := violations(grants, throttle.Rule{Max: 20, Per: time.Second}); n > 0 {
				t.Errorf("%d violations", n)
			}
			if took := w.now.Sub(start); took > 14*time.Second+10*time.Millisecond {
				t.Errorf("it took %s, the optimum is 14s", took)
			}
			if w.pulls > size*11/10 {
				t.Errorf("%d pulls", w.pulls)
			}
		})
	}
}
