package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// ownClock gives a database a clock that can be set. The columns' defaults were made when the tables were, and are made
// again.
const ownClock = `
CREATE SCHEMA clock;
CREATE TABLE clock.back (by interval NOT NULL);
INSERT INTO clock.back VALUES ('0 s');
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
	$$ SELECT pg_catalog.clock_timestamp() - by FROM clock.back $$;
CREATE FUNCTION clock.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT clock.clock_timestamp() $$;
ALTER TABLE pacer.notifications ALTER accepted_at SET DEFAULT clock.clock_timestamp();
ALTER TABLE pacer.outbox ALTER due_at SET DEFAULT clock.clock_timestamp() + interval '3 s'`

// newClockWorld is a world whose database has a clock of its own.
func newClockWorld(t *testing.T, cfg agenda.Config, change ...func(*postgres.Config)) *world {
	t.Helper()
	address := postgrestest.URL(t)
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), ownClock); err != nil {
		t.Fatal(err)
	}
	return newWorldOn(t, redistest.Client(t), cfg, address, func(config *pgxpool.Config) {
		connect.Direct(config)
		config.ConnConfig.RuntimeParams["search_path"] = "clock,pg_catalog,public"
	}, change...)
}

// setBack sets the database's clock back by a minute.
func (w *world) setBack(t *testing.T) {
	t.Helper()
	w.exec(t, "UPDATE clock.back SET by = by + interval '1 min'")
}

// What is accepted after Postgres's clock was set back comes behind what was accepted before, and replaces it, however
// it is accepted and gets into its backlog.
func TestTheOrderDoesNotDependOnTheClock(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*postgres.Config){
		"Inserted": func(*postgres.Config) {}, "Copied": copies,
	} {
		for after, want := range map[string][]string{
			"": {"c", "score-a", "b", "a", "enqueued"}, "Rebuilt": {"c", "b", "a", "score-a", "enqueued"},
		} {
			t.Run(name+after, func(t *testing.T) {
				t.Parallel()
				w := newClockWorld(t, agenda.Config{MaxCrashes: 1000}, change)
				for _, id := range []string{"c", "b", "a"} {
					w.acceptOne(t, notification.Notification{ID: id})
					w.acceptOne(t, notification.Notification{ID: "score-" + id, CollapseKey: "score"})
					w.setBack(t)
				}
				w.exec(t, `SELECT pacer.enqueue('{"id":"enqueued","user_id":"ada","category":"free","channel":"log"}')`)
				if after != "" {
					w.flush(t)
				}
				w.round(t)
				if got := w.deliverAll(t); !slices.Equal(got, want) {
					t.Errorf("delivered %q, want %q", got, want)
				}
				w.round(t)
				w.wantStatus(t, "score-a", "delivered")
				w.wantStatus(t, "score-b", "replaced")
			})
		}
	}
}

// A retry comes after its back-off, even if Redis takes it to be due, and max_defer counts the time that has passed,
// however wrong Postgres's clock is.
func TestWaitsDoNotDependOnTheClock(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"RedisKnows": false, "RedisLost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newClockWorld(t, agenda.Config{
				MaxCrashes: 1000,
				Settings:   func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: 20 * time.Second} },
			})
			w.setBack(t)
			w.acceptOne(t, notification.Notification{ID: "n1"})
			g := w.take(t, "ada")
			if g == nil {
				t.Fatal("it waits for too long at once")
			}
			w.settle(t, g, dispatch.Outcome{
				Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: 2 * time.Second,
			})
			settled := time.Now()
			w.setBack(t)
			if lose {
				w.flush(t)
				w.round(t)
			}
			for g = nil; g == nil; <-time.After(20 * time.Millisecond) {
				if time.Since(settled) > 10*time.Second {
					t.Fatal("the retry does not come")
				}
				w.comeDue(t, "ada")
				g = w.take(t, "ada")
			}
			if after := time.Since(settled); after < 1700*time.Millisecond {
				t.Errorf("the retry comes after %s", after)
			}
		})
	}
}
