package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/test/redistest"
)

// accept makes n notifications of a user and has them accepted.
func (w *world) accept(t *testing.T, user, category string, n int) {
	t.Helper()
	var batch []*notification.Notification
	for i := range n {
		batch = append(batch, &notification.Notification{
			ID: fmt.Sprintf("%s-%s-%d", user, category, i), UserID: user, Category: category,
			Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		})
	}
	if _, err := w.store.Accept(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (w *world) flush(t *testing.T) {
	t.Helper()
	if err := w.redis.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// All of Redis is lost. Nothing is granted until the partitions are rebuilt. Then the windows hold what they held, the
// backlogs are in their old order, what had ended does not come back, and the totals are what they were.
func TestRebuildBringsBackBacklogsWindowsAndTotals(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "chat", 4) // two a minute
	begun := time.Now()
	w.deliver(t, "ada")
	sending := w.take(t, "ada")
	if sending == nil {
		t.Fatal("the second is not granted")
	}
	before := w.stats(t)
	w.flush(t)
	round := dispatch.TakeRequest{
		Partition: w.agendas.PartitionOf("ada"), ID: "lost", Wakeups: []dispatch.Wakeup{w.held["ada"]}, Capacity: 1,
		Pull: 10,
	}
	if reply, err := w.store.Take(t.Context(), round); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("a partition that has lost its state returns %+v, %v", reply, err)
	}
	rebuilt, err := w.relay.RebuildLost(t.Context())
	if err != nil || rebuilt.Waiting != 2 || rebuilt.InFlight != 1 || len(rebuilt.Partitions) != 2 ||
		rebuilt.Windows != 1 {
		t.Fatalf("rebuilt %+v, %v", rebuilt, err)
	}
	if again, err := w.relay.RebuildLost(t.Context()); err != nil || again.Partitions != nil {
		t.Errorf("rebuilt again: %+v, %v", again, err)
	}
	w.wantAwake(t, "ada")
	if taken := w.ask(t, "ada", 1); len(taken.Grants) > 0 || w.wakesIn(t, "ada")+time.Since(begun) < 50*time.Second {
		t.Errorf("the window is not full: %+v", taken)
	}
	w.wantAwake(t, "ada")
	if s, err := w.store.Settle(t.Context(), sending, dispatch.Outcome{
		Disposition: dispatch.Delivered, Reason: "delivered",
	}); err != nil || s.Stale {
		t.Errorf("a result from before the loss: %+v, %v", s, err)
	}
	after := w.stats(t)
	if after.Totals.Accepted != before.Totals.Accepted || after.Totals.Delivered != before.Totals.Delivered+1 ||
		after.Totals.Attempts != before.Totals.Attempts {
		t.Errorf("totals were %+v, are %+v", before, after)
	}
	w.wantDifferences(t)
}

func (w *world) stats(t *testing.T) stats.Counts {
	t.Helper()
	counts, err := w.store.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// A grant from before a rebuild is void: no window of the new state would count its admission.
func TestGrantsFromBeforeARebuildAreVoid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "slow", 1)
	w.exec(t, "UPDATE pacer.partitions SET epoch = epoch + 1")
	if g := w.take(t, "ada"); g != nil {
		t.Fatalf("granted %+v", g)
	}
	w.wantAwake(t, "ada")
	w.exec(t, "UPDATE pacer.partitions SET epoch = epoch - 1")
	w.deliver(t, "ada") // its slot was given back
	w.exec(t, "UPDATE pacer.partitions SET epoch = epoch + 1")
	if rebuilt, err := w.relay.RebuildLost(t.Context()); err != nil || len(rebuilt.Partitions) != 2 {
		t.Errorf("partitions of another epoch than the database's are rebuilt: %+v, %v", rebuilt, err)
	}
}

func TestPurgeKeepsWhatIsYoungOrOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 4)
	for range 3 {
		w.deliver(t, "ada")
	}
	w.exec(t, "UPDATE pacer.notifications SET accepted_at = now() - interval '40 days' WHERE id <> 'ada-free-2'")
	w.exec(t,
		"UPDATE pacer.notifications SET ended_at = now() - interval '31 days' WHERE id IN ('ada-free-0', 'ada-free-1')")
	w.exec(t, `INSERT INTO pacer.attempts
			(notification_id, generation, attempt, user_id, category, admitted_at, ended_at, outcome)
		VALUES ('~free:ada:1', 1, 1, 'ada', 'free', 1, now() - interval '31 days', 'imported')`)
	if n, err := w.relay.Purge(t.Context()); err != nil || n != 2 {
		t.Fatalf("purged %d, %v; want 2", n, err)
	}
	for query, want := range map[string]string{
		"SELECT string_agg(id, ',' ORDER BY id) FROM pacer.notifications":        "ada-free-2,ada-free-3",
		"SELECT string_agg(notification_id, ',' ORDER BY 1) FROM pacer.attempts": "ada-free-2",
	} {
		var got string
		if err := w.pool.QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", query, got, err, want)
		}
	}
}
