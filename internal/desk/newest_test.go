package desk_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

var gone = dispatch.Outcome{Disposition: dispatch.Failed, Reason: "target_gone: 410", Failure: true}

// bulk is the store for those who find and change many.
func (w *world) bulk() bulkStore {
	w.Helper()
	store, ok := w.store.(bulkStore)
	if !ok {
		w.Fatalf("%T keeps no lists", w.store)
	}
	return store
}

// many finds and changes what is in the world.
func (w *world) many() *desk.Many {
	w.Helper()
	store := w.bulk()
	return &desk.Many{
		Store: store, Control: w.control, Process: "p", Rate: 100_000, Log: slog.New(slog.DiscardHandler),
		Intake: intake.New(intake.Config{
			Store: store, Rules: lenient{}, Log: slog.New(slog.DiscardHandler),
			HasDevice: func(context.Context, string, notification.Channel) (bool, error) { return true, nil },
		}),
		Names: func() desk.Names {
			return desk.Names{Categories: w.CategoryNames(), Channels: []string{"email", "log"}}
		},
	}
}

// view returns a notification.
func (w *world) view(id string) *notification.View {
	w.Helper()
	v, err := w.store.View(w.Context(), id)
	if err != nil {
		w.Fatalf("view %s: %v", id, err)
	}
	return v
}

// fail has notifications accepted, and sent in vain.
func (w *world) fail(n int, change func(i int, n *notification.Notification)) []string {
	w.Helper()
	var ids []string
	for i := range n {
		accepted := w.accept(func(n *notification.Notification) { change(i, n) })
		w.settle(w.grant(), gone)
		ids = append(ids, accepted.ID)
	}
	return ids
}

// Whoever sends an older notification again does not replace the newer one with its collapse key, nor send the older
// content after it, whether the newer one waits or has gone.
func TestTheOlderIsNotSentAgainAfterTheNewer(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		m := w.many()
		keyed := func(n *notification.Notification) { n.CollapseKey, n.Category = "score", "gap" }
		older := w.fail(1, func(_ int, n *notification.Notification) { keyed(n) })[0]
		newer := w.accept(keyed)
		for _, after := range []notification.Status{notification.StatusDeferred, notification.StatusDelivered} {
			if after == notification.StatusDelivered {
				w.settle(w.grant(), delivered)
			}
			_, retried := m.Retry(t.Context(), older)
			_, moved := m.Move(t.Context(), older, "email")
			for action, err := range map[string]error{"retried": retried, "moved": moved} {
				if !refused(err) {
					t.Errorf("the newer is %s; the older is %s: %v", after, action, err)
					continue
				}
				w.says("the older is "+action, err.Error())
			}
			if v := w.view(newer.ID); v.Status.Ended() != after.Ended() || v.Reason == notification.ReasonReplaced {
				t.Fatalf("the newer is %s (%s)", v.Status, v.Reason)
			}
		}
	})
}

// What goes on in place of a notification is newer itself. It is not in the way when the step is repeated, nor when it
// fails and is sent again.
func TestTheNewestIsSentAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		m := w.many()
		first := w.fail(1, func(_ int, n *notification.Notification) { n.CollapseKey = "score" })[0]
		w.accept(func(n *notification.Notification) { n.CollapseKey, n.UserID = "score", "ben" })
		w.accept(func(n *notification.Notification) { n.CollapseKey, n.Category = "score", "slow" })
		w.accept(func(n *notification.Notification) { n.CollapseKey = "scores" })
		w.accept(nil)
		second, err := m.Retry(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Retry(t.Context(), first); err != nil || again != second {
			t.Errorf("sent again as %s, and when repeated as %s, %v", second, again, err)
		}
		w.until("the second fails", func(*dispatch.Grant) dispatch.Outcome { return gone },
			func() bool { return w.view(second).Status == notification.StatusFailed })
		third, err := m.Retry(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Retry(t.Context(), first); err != nil || again != second {
			t.Errorf("the first was sent again as %s, and is as %s, %v", second, again, err)
		}
		if v := w.view(third); !v.Status.Waiting() {
			t.Errorf("the third is %s (%s)", v.Status, v.Reason)
		}
	})
}

// shuffled is a store that lists a page in an order of its own, as a scan of Redis does.
type shuffled struct{ desk.ManyStore }

func (s shuffled) Find(ctx context.Context, f notification.Filter) (*notification.Found, error) {
	found, err := s.ManyStore.Find(ctx, f)
	if err == nil {
		slices.SortFunc(found.IDs, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(b, a))
		})
	}
	return found, err
}

// A batch sends a user's notifications again in the order in which they came, and of those with one collapse key the
// newest.
func TestABatchIsSentAgainInOrder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		const users, each = 3, 6
		w.fail(users*each, func(i int, n *notification.Notification) {
			n.UserID, n.Title = fmt.Sprint("user", i%users), fmt.Sprint(i/users)
			if i/users == 2 || i/users == 4 {
				n.CollapseKey = "score"
			}
		})
		m := w.many()
		m.Store = shuffled{m.Store}
		d := deploy(t, w.bulk(), w.control)
		j := d.run(m, d.begin(m, desk.BulkOrder{Action: desk.ActionRetry}, users*each).ID)
		if j.Status != control.JobDone || j.Done != users*(each-1) || j.Refused != users || len(j.Faults) == 0 {
			t.Errorf("the job is %+v", j)
		}
		var again []notification.View
		for _, v := range d.all() {
			if v.Status.Waiting() {
				again = append(again, v)
			}
		}
		slices.SortFunc(again, func(a, b notification.View) int { return a.CreatedAt.Compare(b.CreatedAt) })
		titles := map[string]string{}
		for _, v := range again {
			titles[v.UserID] += v.Title
		}
		want := map[string]string{"user0": "01345", "user1": "01345", "user2": "01345"}
		if diff := gocmp.Diff(want, titles); diff != "" {
			t.Errorf("sent again in another order (-want +got):\n%s", diff)
		}
	})
}
