package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// pushCap lets one push notification an hour pass.
var pushCap = throttle.Rule{Max: 1, Per: time.Hour, Kind: throttle.KindNamed, Cap: "push", Channels: "fcm"}

func (w *world) acceptOn(channel notification.Channel, p notification.Priority) string {
	return w.accept(agenda.Entry{Payload: agenda.OnChannel(channel), Priority: p})
}

// granted serves, and gives what is granted.
func (w *world) granted() string {
	w.serve()
	ids := ""
	for len(w.grants) > 0 {
		ids += w.grants[0].Notification.ID + " "
		w.settle(delivered)
	}
	return ids
}

// What stands behind one that waits for a cap goes as soon as that is gone, if the cap does not count it; and what
// comes before it goes at once.
func TestACapOfSomeChannelsHoldsNoOthers(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, id string){
		"Cancelled": func(w *world, id string) {
			if err := w.store.Cancel(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
		"Overtaken": func(w *world, _ string) {
			urgent := w.acceptOn("email", notification.PriorityHigh)
			if got := w.granted(); got != urgent+" " {
				t.Errorf("granted: %q, want the urgent %s", got, urgent)
			}
			if err := w.store.Cancel(t.Context(), "n2"); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{pushCap}}})
			w.acceptOn("fcm", notification.PriorityNormal)
			if got := w.granted(); got != "n1 " {
				t.Fatalf("granted: %q", got)
			}
			held := w.acceptOn("fcm", notification.PriorityNormal)
			behind := w.acceptOn("email", notification.PriorityNormal)
			if got := w.granted(); got != "" {
				t.Fatalf("granted: %q, though the first waits for its cap", got)
			}
			if s := w.state(held); s.Status != notification.StatusDeferred || s.Reason != "cap:push" ||
				!s.DeliverAt.Equal(start.Add(time.Hour)) {
				t.Errorf("the first is %s until %s for %s", s.Status, s.DeliverAt, s.Reason)
			}
			end(w, held)
			if got := w.granted(); got != behind+" " {
				t.Errorf("granted: %q, want %s", got, behind)
			}
		})
	}
}

// What stands behind one that is granted ahead of its slot goes no sooner than that one, though no limit counts it.
func TestNothingGoesBeforeWhatIsGrantedAhead(t *testing.T) {
	t.Parallel()
	soon := pushCap
	soon.Per = 2 * time.Second
	w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{soon}}, MaxDefer: time.Hour})
	w.acceptOn("fcm", notification.PriorityNormal)
	w.granted()
	w.acceptOn("fcm", notification.PriorityNormal)
	w.acceptOn("email", notification.PriorityNormal)
	w.serve()
	w.advance(soon.Per - 15*time.Millisecond)
	w.held["ada"] = heldWakeup{w.held["ada"].Wakeup, w.held["ada"].partition, w.now} // it asks 15 ms before the slot
	w.serve()
	if len(w.grants) != 2 {
		t.Fatalf("%d grants, want both", len(w.grants))
	}
	for _, g := range w.grants {
		if want := start.Add(soon.Per); !g.AdmittedAt.Equal(want) {
			t.Errorf("%s is admitted at %s, want the slot of the first, %s", g.Notification.ID, g.AdmittedAt, want)
		}
	}
}

// A grant that is given back leaves every cap that counted it, though the policy has changed meanwhile.
func TestWhatIsGivenBackLeavesTheCapsThatCountedIt(t *testing.T) {
	t.Parallel()
	capped := agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{pushCap}}, MaxDefer: 24 * time.Hour}
	w := setup(t, capped)
	w.acceptOn("fcm", notification.PriorityNormal)
	w.serve()
	w.settings[""] = agenda.Settings{MaxDefer: 24 * time.Hour}
	w.settle(dispatch.Outcome{Disposition: dispatch.Failed, Reason: "unsent", Refund: true})
	w.settings[""] = capped
	w.acceptOn("fcm", notification.PriorityNormal)
	if got := w.granted(); got != "n2 " {
		t.Errorf("granted: %q, want the second in the place of the first", got)
	}
	w.acceptOn("fcm", notification.PriorityNormal)
	w.settings[""] = agenda.Settings{MaxDefer: 24 * time.Hour}
	if err := w.store.Wake(t.Context(), w.store.PartitionOf("ada"), "ada"); err != nil {
		t.Fatal(err)
	}
	if got := w.granted(); got != "n3 " {
		t.Errorf("granted: %q, want the third, whose cap is gone", got)
	}
}
