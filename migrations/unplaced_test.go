package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// withoutUnplaced takes migrations back until pacer.unplaced is gone.
func withoutUnplaced(t *testing.T, url string, conn *pgx.Conn) {
	t.Helper()
	for count(t, conn, "SELECT count(*) FROM pg_class WHERE relname = 'unplaced'") > 0 {
		if err := migrations.Down(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
}

// accepts writes a notification as the earlier version of the program did, or as people do by hand.
func accepts(t *testing.T, conn *pgx.Conn, id string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `INSERT INTO pacer.notifications (id, user_id, category, channel, priority)
		VALUES ($1, 'ada', 'chat', 'log', 3)`, id); err != nil {
		t.Fatal(err)
	}
}

// The relay of either version finds the notifications that the other version accepted and may not have placed.
func TestUnplacedNotificationsSurviveUpAndDown(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	conn := postgrestest.Connect(t, url)
	withoutUnplaced(t, url, conn)
	accepts(t, conn, "before")
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if count(t, conn, "SELECT count(*) FROM pacer.outbox WHERE id = 'before'") != 1 {
		t.Error("what the version before accepted is not carried over")
	}
	accepts(t, conn, "after")
	if count(t, conn, "SELECT count(*) FROM pacer.unplaced WHERE first = 'after' AND ids = ARRAY['after']") != 1 {
		t.Error("what was accepted is not known as unplaced")
	}
	withoutUnplaced(t, url, conn)
	if count(t, conn, "SELECT count(*) FROM pacer.outbox WHERE id = 'after'") != 1 {
		t.Error("on the way down, what was unplaced is lost to the version before")
	}
}

// A large statement is noted in rows of bounded size. What pacer.enqueue accepts, and the same id again, is noted in
// the outbox only.
func TestUnplacedRowsAreBounded(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	if _, err := conn.Exec(t.Context(), `INSERT INTO pacer.notifications (id, user_id, category, channel, priority)
		SELECT 'n' || i, 'ada', 'chat', 'log', 3 FROM generate_series(1, 2500) i`); err != nil {
		t.Fatal(err)
	}
	if rows, most := count(t, conn,
		"SELECT count(*) FROM pacer.unplaced"), count(t, conn,
		"SELECT max(cardinality(ids)) FROM pacer.unplaced"); rows != 3 || most > 1000 {
		t.Errorf("%d rows of at most %d ids, want 3 of 1000", rows, most)
	}
	for range 2 {
		if _, err := conn.Exec(t.Context(), `DELETE FROM pacer.outbox`); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `SELECT pacer.enqueue('{"id":"own","user_id":"ada"}')`); err != nil {
			t.Fatal(err)
		}
		if count(t, conn, "SELECT count(*) FROM pacer.outbox WHERE id = 'own'") != 1 {
			t.Error("what pacer.enqueue accepts is not in the outbox")
		}
	}
	accepts(t, conn, "afterwards")
	if got := count(t, conn, "SELECT count(*) FROM pacer.unplaced WHERE first IN ('own', 'afterwards')"); got != 1 {
		t.Errorf("%d of pacer.enqueue's and a plain statement are noted as unplaced, want the latter", got)
	}
}
