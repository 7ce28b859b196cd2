package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/redistest"
)

// digestWorld has four notifications of ada, which go as one, maybe because of a ladder.
func digestWorld(t *testing.T, ladder ...notification.Rung) *world {
	t.Helper()
	w := newWorldWith(t, redistest.Client(t), agenda.Config{
		MaxCrashes: 1000, Lease: time.Hour, Settings: func(string, string) agenda.Settings {
			digest := &player.Digest{MaxItems: 10, Bundles: ladder != nil, ByLadder: ladder != nil}
			return agenda.Settings{MaxDefer: time.Hour, Digest: digest, Overflow: ladder}
		},
	})
	for i := range 4 {
		w.acceptOne(t, notification.Notification{ID: fmt.Sprintf("n%d", i), ExpiresAt: time.Now().Add(time.Hour)})
	}
	return w
}

// takeDigest has a worker claim what goes as one, and lists it.
func (w *world) takeDigest(t *testing.T) (*dispatch.Grant, []string) {
	t.Helper()
	g := w.take(t, "ada")
	if g == nil {
		t.Fatal("nothing is granted")
	}
	var ids []string
	for _, n := range g.Digest {
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	return g, ids
}

// All of Redis is lost after a rung had what waits go as one: it still does.
func TestALadderOutlivesRedis(t *testing.T) {
	t.Parallel()
	w := digestWorld(t, notification.Rung{Waiting: 2, Then: notification.OverflowDigest})
	w.loseRedis(t)
	if _, ids := w.takeDigest(t); len(ids) != 4 {
		t.Errorf("%v go as one", ids)
	}
}

// All of Redis is lost at each step of a digest's life: none of it is lost, and what may have reached somebody comes
// again as it was.
func TestADigestOutlivesRedis(t *testing.T) {
	t.Parallel()
	all := []string{"n0", "n1", "n2", "n3"}
	ambiguous := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "ambiguous: timeout", Failure: true}
	for name, lives := range map[string]func(t *testing.T, w *world, g *dispatch.Grant){
		"before it is settled": func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			w.loseRedis(t)
			w.settle(t, g, ambiguous)
		},
		"while it waits for its retry": func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			w.settle(t, g, ambiguous)
			w.loseRedis(t)
		},
		"after its worker died": func(t *testing.T, w *world, _ *dispatch.Grant) {
			t.Helper()
			w.loseRedis(t)
			w.lapse(t, "n0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := digestWorld(t)
			g, first := w.takeDigest(t)
			if !slices.Equal(first, all) {
				t.Fatalf("%v go as one", first)
			}
			w.acceptOne(t, notification.Notification{ID: "newcomer"})
			lives(t, w, g)
			w.exec(t, "UPDATE pacer.notifications SET not_before = admitted_at WHERE status = 'retrying'")
			w.comeDue(t, "ada")
			again, ids := w.takeDigest(t)
			if !slices.Equal(ids, all) || again.Notification.ID != g.Notification.ID {
				t.Fatalf("%v go again with %s", ids, again.Notification.ID)
			}
			w.settle(t, again, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
			for _, id := range all {
				w.wantStatus(t, id, "delivered")
			}
			if g, ids := w.takeDigest(t); g.Notification.ID != "newcomer" || len(ids) > 0 {
				t.Errorf("then goes %s with %v", g.Notification.ID, ids)
			}
		})
	}
}

// What was cancelled, without Redis having heard of it, is in no digest.
func TestWhatHasEndedIsInNoDigest(t *testing.T) {
	t.Parallel()
	w := digestWorld(t)
	w.exec(t, "UPDATE pacer.notifications SET status = 'cancelled', ended_at = clock_timestamp() WHERE id = 'n2'")
	if _, ids := w.takeDigest(t); !slices.Equal(ids, []string{"n0", "n1", "n3"}) {
		t.Errorf("%v go as one", ids)
	}
}
