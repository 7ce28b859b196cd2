package postgres_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// on opens the database at address over the Redis of a world, after the world's own connections were closed.
func (w *world) on(t *testing.T, address string) *world {
	t.Helper()
	_ = w.store.Close()
	w.pool.Close()
	return newWorldOn(t, w.redis, w.cfg, address, connect.Direct)
}

// marked makes rounds until Redis remembers a mark that is newer than everything written up to now.
func (w *world) marked(t *testing.T) {
	t.Helper()
	latest := func() (id int) {
		if err := w.pool.QueryRow(t.Context(), "SELECT max(id) FROM pacer.marks").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := latest()
	w.await(t, "no new mark was written", func() bool {
		w.round(t)
		return latest() > before
	})
}

// Redis lives on while the database is replaced by an older copy of itself, as a dump that is restored. What is open in
// the copy reaches an end, whatever Redis believes of it. The limits count what was admitted since the copy was made.
func TestAnOlderDatabaseIsNoticed(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000}, address, connect.Direct)
	w.accept(t, "ada", "free", 3)
	w.accept(t, "ada", "slow", 2)
	w.acceptOne(t, notification.Notification{ID: "old", Category: "free", CollapseKey: "score"})
	w.round(t)
	_ = w.store.Close()
	w.pool.Close()
	backup := postgrestest.Copy(t, address)

	w = w.on(t, address)
	if got := w.deliverAll(t); len(got) != 5 {
		t.Fatalf("%v went, want all but a slow one", got)
	}
	w.accept(t, "eve", "free", 2)
	w.acceptOne(t, notification.Notification{ID: "new", Category: "free", CollapseKey: "score"})
	if err := w.store.Cancel(t.Context(), "ada-slow-1"); err != nil {
		t.Fatal(err)
	}
	w.marked(t)

	w = w.on(t, backup)
	w.calm(t)
	want := []string{"ada-free-0", "ada-free-1", "ada-free-2", "old"}
	if got := w.deliverAll(t); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("%v went from the copy, want %v: a slow one went an hour ago at most", got, want)
	}
	for _, id := range want {
		w.wantStatus(t, id, "delivered")
	}
	w.wantDifferences(t)
}

// What Redis has ended and not yet told is not told to an older state of the database, nor to another database: it may
// have ended for a newer notification that this one does not know.
func TestEndsAreNotToldToAnotherHistory(t *testing.T) {
	t.Parallel()
	for name, becomes := range map[string]string{
		"older":           "DELETE FROM pacer.marks WHERE id > (SELECT min(id) FROM pacer.marks)",
		"another":         "UPDATE pacer.marks SET mark = 'other.' || id",
		"another history": "UPDATE pacer.marks SET history = 'another'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			for _, id := range []string{"old", "new"} {
				w.acceptOne(t, notification.Notification{ID: id, Category: "free", CollapseKey: "score"})
			}
			w.exec(t, becomes)
			w.exec(t, "DELETE FROM pacer.notifications WHERE id = 'new'")
			w.calm(t)
			w.wantStatus(t, "old", "waiting")
			if got := w.deliverAll(t); !slices.Equal(got, []string{"old"}) {
				t.Errorf("%v went, want the one that the database has", got)
			}
		})
	}
}

// The restored database counts fewer builds than there were. A grant of a build that it does not know stays void.
func TestAnEpochIsNeverUsedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 1)
	for range 2 {
		if _, err := w.relay.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before := w.epochOf(t, "ada")
	w.exec(t, "UPDATE pacer.partitions SET epoch = 1")
	w.exec(t, "DELETE FROM pacer.marks")
	w.calm(t)
	if after := w.epochOf(t, "ada"); after <= before {
		t.Errorf("the epoch is %d, and was %d", after, before)
	}
}

// Many relays at work are no other history to each other.
func TestRelaysDoNotTakeEachOtherForAnotherHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	before := w.epochOf(t, "ada")
	var relays sync.WaitGroup
	for range 4 {
		relay := relay.New(w.store.Stores, relay.Config{
			Check:   func(*notification.Notification) error { return nil },
			Windows: func(string) time.Duration { return time.Hour },
		})
		relays.Go(func() {
			for marks := 0; marks < 6; {
				if err := relay.Round(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.marks").Scan(&marks); err != nil {
					t.Error(err)
					return
				}
				if _, err := w.pool.Exec(t.Context(), "SELECT pg_current_xact_id()"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	relays.Wait()
	if after := w.epochOf(t, "ada"); after != before {
		t.Errorf("%d rebuilds", after-before)
	}
}

// Where the role may not ask for the server's history, the marks alone tell.
func TestARoleThatMayNotAskForTheHistory(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	history := func() (text string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT pacer.history()").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := history(); len(got) < 10 {
		t.Errorf("the history is %q, want the system's identifier and timeline", got)
	}
	for _, sql := range []string{
		"REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC",
		"GRANT USAGE ON SCHEMA pacer TO pg_read_all_stats",
		"SET ROLE pg_read_all_stats",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if got := history(); got != "" {
		t.Errorf("the history is %q, and the role may not ask", got)
	}
}

// However long a deployment lives, the marks stay few. The latest ones stay.
func TestMarksStayFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.exec(t, "INSERT INTO pacer.marks (mark) SELECT 'm.' || i FROM generate_series(1, 20500) i")
	if _, err := w.relay.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	var marks, latest int
	err := w.pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE mark = 'm.20500') FROM pacer.marks").
		Scan(&marks, &latest)
	if err != nil || marks > 10_001 || latest != 1 {
		t.Errorf("%d marks are left, %d of them the latest (%v)", marks, latest, err)
	}
}
