package postgres_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// endWorld has leases that end only when the test says so.
func endWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: storetest.MaxCrashes, Lease: time.Hour})
}

// acceptOne has a notification of ada accepted.
func (w *world) acceptOne(t *testing.T, n notification.Notification) {
	t.Helper()
	n.UserID, n.Category, n.Channel, n.Priority = "ada", "free", notification.ChannelLog, notification.PriorityNormal
	accepted, err := w.store.Accept(t.Context(), []*notification.Notification{&n})
	if err != nil || accepted[0].Known {
		t.Fatalf("accept %s: %+v, %v", n.ID, accepted, err)
	}
}

// prefix begins the keys of ada's partition.
func (w *world) prefix() string { return w.prefixOf("ada") }

func (w *world) prefixOf(user string) string {
	return keyspace.Prefix(w.agendas.PartitionOf(user))
}

// lapse ends the lease of a notification in both stores, as if its worker had been killed long ago, and sweeps.
func (w *world) lapse(t *testing.T, id string) {
	t.Helper()
	w.exec(t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second' WHERE id = $1",
		id)
	w.lapseInRedis(t, id)
}

func (w *world) lapseInRedis(t *testing.T, id string) {
	t.Helper()
	if err := w.redis.ZAddXX(t.Context(), w.prefix()+"e", goredis.Z{Score: 1, Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
	w.sweep(t)
}

func (w *world) sweep(t *testing.T) {
	t.Helper()
	for partition := range storetest.Partitions {
		if _, err := w.agendas.Sweep(t.Context(), partition); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) round(t *testing.T) {
	t.Helper()
	if err := w.relay.Round(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantStatus compares the status that Postgres has, not the one that the view makes of both stores.
func (w *world) wantStatus(t *testing.T, id, want string) {
	t.Helper()
	var status string
	if err := w.pool.QueryRow(t.Context(), "SELECT status FROM pacer.notifications WHERE id = $1",
		id).Scan(&status); err != nil || status != want {
		t.Errorf("%s is %q in Postgres, %v; want %q", id, status, err, want)
	}
}

// wantEnds compares how many ends Redis keeps for Postgres.
func (w *world) wantEnds(t *testing.T, want int64) {
	t.Helper()
	if n, err := w.redis.HLen(t.Context(), w.prefix()+"z").Result(); err != nil || n != want {
		t.Errorf("Redis keeps %d ends, %v; want %d", n, err, want)
	}
}

// wantRefused settles a grant long after its lease, and wants that to be refused.
func (w *world) wantRefused(t *testing.T, g *dispatch.Grant) {
	t.Helper()
	s, err := w.store.Settle(t.Context(), g, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
	if err != nil || !s.Stale {
		t.Errorf("a result that came after the end: %+v, %v; want it refused", s, err)
	}
}

// wantGone loses all of Redis, rebuilds it, and wants a notification not to come back.
func (w *world) wantGone(t *testing.T, id string) {
	t.Helper()
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(w.deliverAll(t), id) {
		t.Errorf("%s has ended, and is sent after the loss of Redis", id)
	}
}

// A worker died. Its notification went back into its backlog and ended there: by its expiry, or because a newer one
// replaced it. Postgres has it as being sent; the relay writes the end.
func TestEndsAfterACrashAreWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expiresAt   time.Time
		collapseKey string
		end         func(t *testing.T, w *world)
		want        string
	}{
		"Expiry": {expiresAt: time.Now().Add(time.Hour), end: func(t *testing.T, w *world) {
			t.Helper()
			w.lapse(t, "old")
			expiries := w.prefix() + "y"
			if err := w.redis.ZAddXX(t.Context(), expiries, goredis.Z{Score: 1, Member: "old"}).Err(); err != nil {
				t.Fatal(err)
			}
			w.sweep(t)
		}, want: "expired"},
		"Replacement": {collapseKey: "score", end: func(t *testing.T, w *world) {
			t.Helper()
			w.lapse(t, "old")
			w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
		}, want: "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.acceptOne(t, notification.Notification{ID: "old", ExpiresAt: c.expiresAt, CollapseKey: c.collapseKey})
			granted := w.take(t, "ada")
			if granted == nil {
				t.Fatal("not granted")
			}
			c.end(t, w)
			w.wantEnds(t, 1)
			w.round(t)
			w.wantStatus(t, "old", c.want)
			w.wantEnds(t, 0)
			var counted bool
			const crashed = "SELECT counted FROM pacer.attempts WHERE notification_id = 'old' AND outcome = 'crashed'"
			if err := w.pool.QueryRow(t.Context(), crashed).Scan(&counted); err != nil || !counted {
				t.Errorf("its attempt, which the windows must hold: counted %t, %v", counted, err)
			}
			w.wantRefused(t, granted)
			w.wantStatus(t, "old", c.want)
			w.wantGone(t, "old")
		})
	}
}

// An end that Redis decided waits for the worker that may still deliver. If the worker reports an end, that one counts.
func TestEndWaitsForTheWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report func(t *testing.T, w *world, g *dispatch.Grant)
		want   string
	}{
		"Delivered": {report: func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			if s, err := w.store.Settle(t.Context(), g, dispatch.Outcome{
				Disposition: dispatch.Delivered, Reason: "delivered",
			}); err != nil || s.Stale {
				t.Errorf("%+v, %v", s, err)
			}
		}, want: "delivered"},
		"Retry": {report: func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			if _, err := w.store.Settle(t.Context(), g, dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute,
			}); err != nil {
				t.Error(err)
			}
		}, want: "replaced"},
		"Nothing": {report: func(t *testing.T, w *world, _ *dispatch.Grant) {
			t.Helper()
			w.lapse(t, "old")
		}, want: "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.acceptOne(t, notification.Notification{ID: "old", CollapseKey: "score"})
			granted := w.take(t, "ada")
			if granted == nil {
				t.Fatal("not granted")
			}
			w.lapseInRedis(t, "old")
			w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
			w.round(t)
			w.wantStatus(t, "old", "sending")
			w.wantEnds(t, 1)
			c.report(t, w, granted)
			w.round(t)
			w.wantStatus(t, "old", c.want)
			w.wantEnds(t, 0)
			w.wantGone(t, "old")
		})
	}
}

// A rebuild removes the state of the partitions, but keeps the ends that Postgres has not written yet.
func TestRebuildKeepsEndsThatWait(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.acceptOne(t, notification.Notification{ID: "old", CollapseKey: "score"})
	if w.take(t, "ada") == nil {
		t.Fatal("not granted")
	}
	w.lapseInRedis(t, "old")
	w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
	if id := w.deliver(t, "ada"); id != "new" {
		t.Fatalf("%s is delivered", id)
	}
	w.round(t)
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.lapse(t, "old")
	if got := w.deliverAll(t); len(got) > 0 {
		t.Errorf("%v was replaced, and is sent after the newer", got)
	}
	w.round(t)
	w.wantStatus(t, "old", "replaced")
}

// Once the lease of its worker has ended, a notification can be cancelled, whatever Redis knows about it.
func TestCancelAfterACrash(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, w *world){
		"InFlightInRedis":  func(*testing.T, *world) {},
		"BackInItsBacklog": func(t *testing.T, w *world) { t.Helper(); w.lapseInRedis(t, "old") },
		"UnknownToRedis": func(t *testing.T, w *world) {
			t.Helper()
			if err := w.redis.Del(t.Context(), w.prefix()+"n:old", w.prefix()+"e").Err(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.acceptOne(t, notification.Notification{ID: "old"})
			granted := w.take(t, "ada")
			if granted == nil {
				t.Fatal("not granted")
			}
			lose(t, w)
			if err := w.store.Cancel(t.Context(), "old"); !errors.Is(err, notification.ErrNotWaiting) {
				t.Errorf("cancelled while its worker may deliver it: %v", err)
			}
			w.exec(t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second'")
			if err := w.store.Cancel(t.Context(), "old"); err != nil {
				t.Errorf("cancel: %v", err)
			}
			w.wantStatus(t, "old", "cancelled")
			w.wantRefused(t, granted)
			w.lapse(t, "old")
			w.round(t)
			w.wantStatus(t, "old", "cancelled")
			w.wantGone(t, "old")
		})
	}
}

// Redis is slow, so a notification is cancelled before it has reached its backlog. It gets there afterwards, and the
// relay takes it out again, also if it has given up waiting for it and has looked before.
func TestACancelMayOvertakeThePlacing(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"InTime": false, "Late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			reached, release := make(chan struct{}), make(chan struct{})
			var first sync.Once
			slow := w.process(t, postgres.Config{PlacePatience: time.Millisecond}, func(*process) error {
				first.Do(func() { close(reached) })
				<-release
				return nil
			})
			if _, err := slow.store.Accept(t.Context(), batchOf("ada", "free", 1)); err != nil {
				t.Fatal(err)
			}
			<-reached
			if err := w.store.Cancel(t.Context(), "ada-free-000"); err != nil {
				t.Fatal(err)
			}
			if late {
				w.overdue(t)
			}
			w.round(t)
			close(release)
			if err := slow.store.Close(); err != nil { // once it is in its backlog
				t.Fatal(err)
			}
			w.overdue(t)
			w.round(t)
			w.wantDifferences(t)
			if waiting := w.stats(t).Queued; waiting != 0 {
				t.Errorf("%d wait", waiting)
			}
			w.wantNothingLeft(t)
		})
	}
}
