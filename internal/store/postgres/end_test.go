package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// endWorld has leases that end only when the test says so.
func endWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: storetest.MaxCrashes, Lease: time.Hour})
}

// acceptOne has one of ada's accepted.
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
	return agenda.PartitionPrefix(w.agendas.PartitionOf(user))
}

// lapse ends the lease of a notification in both stores, as when its worker was killed long ago, and has the sweeper look.
func (w *world) lapse(t *testing.T, id string) {
	t.Helper()
	w.exec(t, "UPDATE pacer.notifications SET claimed_until = clock_timestamp() - interval '1 second' WHERE id = $1", id)
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

// wantStatus compares what Postgres, and not the view that puts both stores together, says of a notification.
func (w *world) wantStatus(t *testing.T, id, want string) {
	t.Helper()
	var status string
	if err := w.pool.QueryRow(t.Context(), "SELECT status FROM pacer.notifications WHERE id = $1", id).Scan(&status); err != nil || status != want {
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

// wantRefused has a worker write a result long after its lease.
func (w *world) wantRefused(t *testing.T, g *dispatch.Grant) {
	t.Helper()
	s, err := w.store.Settle(t.Context(), g, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
	if err != nil || !s.Stale {
		t.Errorf("a result that came after the end: %+v, %v; want it refused", s, err)
	}
}

// wantGone loses all of Redis and wants nothing of a notification to come once that is rebuilt.
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

// A worker died, its notification went back into line, and ended there: by one crash too many, by its expiry, or because a
// newer one replaced it. Postgres, which has it as being sent, is told and writes that down.
func TestEndsAfterACrashAreWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notification notification.Notification
		end          func(t *testing.T, w *world)
		want         string
	}{
		"CrashLoop": {notification.Notification{}, func(t *testing.T, w *world) {
			t.Helper()
			if err := w.redis.HSet(t.Context(), w.prefix()+"n:old", "x", storetest.MaxCrashes-1).Err(); err != nil {
				t.Fatal(err)
			}
			w.lapse(t, "old")
		}, "failed"},
		"Expiry": {notification.Notification{ExpiresAt: time.Now().Add(time.Hour)}, func(t *testing.T, w *world) {
			t.Helper()
			w.lapse(t, "old")
			if err := w.redis.ZAddXX(t.Context(), w.prefix()+"y", goredis.Z{Score: 1, Member: "old"}).Err(); err != nil {
				t.Fatal(err)
			}
			w.sweep(t)
		}, "expired"},
		"Replacement": {notification.Notification{CollapseKey: "score"}, func(t *testing.T, w *world) {
			t.Helper()
			w.lapse(t, "old")
			w.acceptOne(t, notification.Notification{ID: "new", CollapseKey: "score"})
		}, "replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			c.notification.ID = "old"
			w.acceptOne(t, c.notification)
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
			if err := w.pool.QueryRow(t.Context(), "SELECT counted FROM pacer.attempts WHERE notification_id = 'old' AND outcome = 'crashed'").Scan(&counted); err != nil || !counted {
				t.Errorf("its attempt, which the windows must hold: counted %t, %v", counted, err)
			}
			w.wantRefused(t, granted)
			w.wantStatus(t, "old", c.want)
			w.wantGone(t, "old")
		})
	}
}

// An end that Redis decided waits for a worker that still may deliver: what it reports wins when it is an end.
func TestEndWaitsForTheWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report func(t *testing.T, w *world, g *dispatch.Grant)
		want   string
	}{
		"Delivered": {func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			if s, err := w.store.Settle(t.Context(), g, dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}); err != nil || s.Stale {
				t.Errorf("%+v, %v", s, err)
			}
		}, "delivered"},
		"Retry": {func(t *testing.T, w *world, g *dispatch.Grant) {
			t.Helper()
			if _, err := w.store.Settle(t.Context(), g, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute}); err != nil {
				t.Error(err)
			}
		}, "replaced"},
		"Nothing": {func(t *testing.T, w *world, _ *dispatch.Grant) {
			t.Helper()
			w.lapse(t, "old")
		}, "replaced"},
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

// A rebuild that takes the partitions' state away leaves the ends that Postgres has not written yet.
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

// Once the lease of its worker has ended, a notification waits again, whatever Redis knows of it: it can be cancelled.
func TestCancelAfterACrash(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, w *world){
		"InFlightInRedis": func(*testing.T, *world) {},
		"BackInLine":      func(t *testing.T, w *world) { t.Helper(); w.lapseInRedis(t, "old") },
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
