package agenda_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// asking asks when notifications of ada would go. Those with a collapse key have a longest wait.
func (w *world) asking(wait time.Duration, notifications ...notification.Notification) []notification.Promise {
	w.t.Helper()
	requests := make([]notification.PromiseRequest, len(notifications))
	for i := range notifications {
		n := &notifications[i]
		n.ID, n.UserID, n.Category = "asked"+strconv.Itoa(i), "ada", "chat"
		requests[i] = notification.PromiseRequest{Notification: n}
		if n.CollapseKey != "" {
			requests[i].MaxWait = &wait
		}
	}
	promises, err := outlook.Of(w.store).Promises(w.test.Context(), requests)
	if err != nil {
		w.t.Fatalf("ask when %d notifications go: %v", len(requests), err)
	}
	return promises
}

// What would replace another takes its place, and the other takes no slot: so it is not too late when the other goes in
// time. Where it is refused, the other still goes.
func TestAReplacementIsPromisedThePlace(t *testing.T) {
	t.Parallel()
	const score, high, normal, low = "score", notification.PriorityHigh, notification.PriorityNormal,
		notification.PriorityLow
	score1 := notification.Notification{CollapseKey: score, Priority: normal}
	scheduled := notification.Notification{CollapseKey: score, Priority: normal, SendAt: start.Add(90 * time.Second)}
	other := notification.Notification{Priority: normal}
	for name, c := range map[string]struct {
		older agenda.Entry
		asked []notification.Notification
		wait  time.Duration
		slots []int // minutes after the first; 0 when it is too late
	}{
		"in its place": {asked: []notification.Notification{score1}, wait: time.Minute, slots: []int{1}},
		"more urgent": {
			older: agenda.Entry{Priority: low}, wait: time.Minute, slots: []int{1},
			asked: []notification.Notification{{CollapseKey: score, Priority: high}},
		},
		"less urgent": {
			asked: []notification.Notification{{CollapseKey: score, Priority: low}, other}, wait: time.Hour,
			slots: []int{3, 2},
		},
		"of what is later": {
			older: agenda.Entry{SendAt: start.Add(70 * time.Second)}, wait: time.Hour, slots: []int{2, 3},
			asked: []notification.Notification{score1, other},
		},
		"to be sent later": {
			asked: []notification.Notification{scheduled, other}, wait: time.Hour, slots: []int{2, 3},
		},
		"twice in a batch": {
			asked: []notification.Notification{score1, other, score1}, wait: time.Minute, slots: []int{1, 3, 1},
		},
		"refused, before others": {asked: []notification.Notification{score1, other}, slots: []int{0, 3}},
		"under another key": {
			asked: []notification.Notification{{CollapseKey: "goal", Priority: normal}}, wait: time.Hour, slots: []int{3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Minute}}}})
			w.accept(agenda.Entry{})
			w.serve()
			w.settle(delivered)
			first := w.now
			c.older.CollapseKey = score
			w.advance(5 * time.Second)
			w.accept(c.older)
			w.advance(5 * time.Second)
			w.accept(agenda.Entry{})
			var got []int
			for _, p := range w.asking(c.wait, c.asked...) {
				slot := int(p.DeliverAt.Sub(first).Round(time.Second) / time.Minute)
				if p.TooLate != "" {
					slot = 0
				}
				got = append(got, slot)
			}
			if diff := cmp.Diff(c.slots, got); diff != "" {
				t.Errorf("the slots (-want +got):\n%s", diff)
			}
		})
	}
}
