package postgres_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// forgetNewest makes Redis forget the newest notification of a collapse key, as it does after an hour.
func (w *world) forgetNewest(t *testing.T) {
	t.Helper()
	keys, err := w.redis.Keys(t.Context(), w.prefix()+"h:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("Redis remembers no newest of a key: %v", err)
	}
	if err := w.redis.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
}

// wantReplaced wants a notification that was superseded to end as replaced in both stores when it is claimed, and to
// hold nobody up.
func (w *world) wantReplaced(t *testing.T, id string) {
	t.Helper()
	if got := w.deliverAll(t); len(got) > 0 {
		t.Fatalf("%v is granted after the newer", got)
	}
	w.round(t)
	w.wantStatus(t, id, "replaced")
	w.wantEnds(t, 0)
	view, err := w.store.View(t.Context(), id)
	if err != nil || view.Status != notification.StatusReplaced || view.Reason != notification.ReasonReplaced {
		t.Errorf("%s is %s (%s), %v", id, view.Status, view.Reason, err)
	}
	if total := w.stats(t); total.Queued+total.Retrying+total.Sending+total.Deferred != 0 ||
		total.Totals.Replaced != 1 {
		t.Errorf("left is %+v", total)
	}
	if state := w.redis.HGet(t.Context(), w.prefix()+"n:"+id, "s").Val(); state != "" && state != "R" {
		t.Errorf("%s is %q in Redis", id, state)
	}
}

// Of two notifications with one collapse key the older is never sent after the newer, whatever Redis forgets, and
// whatever became of the newer: its claim is declined.
func TestTheOlderOfACollapseKeyIsNotClaimed(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(t *testing.T, w *world){
		"AfterALoss": func(t *testing.T, w *world) {
			t.Helper()
			w.flush(t)
			if rebuilt, err := w.relay.RebuildLost(t.Context()); err != nil || rebuilt.InFlight != 1 {
				t.Fatalf("rebuilt %+v, %v", rebuilt, err)
			}
			w.lapse(t, "old")
		},
		"AfterAnHour": func(t *testing.T, w *world) {
			t.Helper()
			w.forgetNewest(t)
			w.lapse(t, "old")
		},
	} {
		for end, disposition := range map[string]dispatch.Disposition{
			"Delivered": dispatch.Delivered, "Failed": dispatch.Failed,
		} {
			t.Run(name+end, func(t *testing.T) {
				t.Parallel()
				w := endWorld(t)
				w.acceptOne(t, notification.Notification{ID: "old", CollapseKey: "score"})
				granted := w.take(t, "ada")
				w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
				newer := w.take(t, "ada")
				if granted == nil || newer == nil {
					t.Fatal("not granted")
				}
				if _, err := w.store.Settle(t.Context(), newer,
					dispatch.Outcome{Disposition: disposition}); err != nil {
					t.Fatal(err)
				}
				forget(t, w)
				w.wantReplaced(t, "old")
				w.wantRefused(t, granted)
			})
		}
	}
}

// A notification supersedes only those of its own user, category and key.
func TestWhatNothingSupersedesIsClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	accepted := []*notification.Notification{
		{ID: "old", UserID: "ada", Category: "free", CollapseKey: "score"},
		{ID: "other-key", UserID: "ada", Category: "free", CollapseKey: "scores"},
		{ID: "other-category", UserID: "ada", Category: "slow", CollapseKey: "score"},
		{ID: "other-user", UserID: "ben", Category: "free", CollapseKey: "score"},
		{ID: "no-key", UserID: "ada", Category: "free"},
		{ID: "old-without-key", UserID: "cid", Category: "free"},
		{ID: "new-without-key", UserID: "cid", Category: "free"},
	}
	for _, n := range accepted {
		n.Channel, n.Priority = notification.ChannelLog, notification.PriorityNormal
		if _, err := w.store.Accept(t.Context(), []*notification.Notification{n}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"old", "other-key", "other-category", "other-user", "no-key", "old-without-key", "new-without-key"}
	got := w.deliverAll(t)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("delivered differ (-want +got):\n%s", diff)
	}
	for _, n := range accepted {
		t.Run(n.ID, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains(got, n.ID) {
				t.Errorf("it is not delivered; %q are", got)
			}
		})
	}
}

// What a producer wrote into the database replaces nothing until a process has allowed it.
func TestNothingUncheckedSupersedes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.acceptOne(t, notification.Notification{ID: "old", CollapseKey: "score"})
	w.exec(t, `SELECT pacer.enqueue('{"id":"bad","user_id":"ada","category":"free","channel":"log","collapse_key":"score"}')`)
	w.relay = w.lagging("free", hasty)
	w.round(t)
	if got := w.deliverAll(t); !slices.Equal(got, []string{"old"}) {
		t.Errorf("delivered %q, want the old one", got)
	}
	w.round(t)
	w.wantStatus(t, "bad", "failed")
}

// An entry that comes late out of the outbox never replaces the newer one in its backlog and is never sent after it,
// even when Redis has forgotten which was the newest.
func TestALateEntryOfTheOutboxReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, forgets := range map[string]bool{"AtOnce": false, "AnHourLater": true} {
		for gone, newerGone := range map[string]bool{"NewerWaits": false, "NewerGone": true} {
			t.Run(name+gone, func(t *testing.T) {
				t.Parallel()
				w := endWorld(t)
				const old = `{"id":"old","user_id":"ada","category":"free","channel":"log","collapse_key":"score"}`
				w.exec(t, "SELECT pacer.enqueue($1)", old)
				w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
				if newerGone {
					w.deliver(t, "ada")
				}
				if forgets {
					w.forgetNewest(t)
				}
				w.round(t)
				if !newerGone {
					if id := w.deliver(t, "ada"); id != "new" {
						t.Errorf("%s is delivered", id)
					}
				}
				w.wantStatus(t, "new", "delivered")
				w.wantReplaced(t, "old")
			})
		}
	}
}
