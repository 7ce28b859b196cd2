package migrations_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// read reads a table in a transaction that stays open, as a backup does.
func read(t *testing.T, url string) pgx.Tx {
	t.Helper()
	tx, err := postgrestest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE pacer.outbox IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return tx
}

// next is a migrator with one more migration, which needs all of the table.
func next(m migrations.Migrator) migrations.Migrator {
	return m.Next("ALTER TABLE pacer.outbox ADD COLUMN next boolean", "ALTER TABLE pacer.outbox DROP COLUMN next")
}

// Migrations wait for whoever reads the tables, and nobody waits behind them: each accept comes through soon, while the
// reader stays.
func TestMigrationsBesideAReaderStopNobody(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	conn := postgrestest.Connect(t, url)
	beside(t, url, conn, func(m migrations.Migrator) error { return m.Up(t.Context(), url) })
	beside(t, url, conn, func(m migrations.Migrator) error { return m.Down(t.Context(), url) })
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

// beside has the next migration made while somebody reads what it needs.
func beside(t *testing.T, url string, conn *pgx.Conn, migrate func(migrations.Migrator) error) {
	t.Helper()
	reader := read(t, url)
	waits, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- migrate(next(migrations.Migrator{Tell: func(text string) { waits <- text }})) }()
	said := ""
	for tries := 0; tries < 3 || said == ""; tries++ {
		accept(t, conn)
		select {
		case err := <-done:
			t.Fatalf("it ended beside the reader: %v", err)
		case said = <-waits:
		case <-time.After(time.Second): // it is tried again meanwhile
		}
	}
	if !strings.Contains(said, "a transaction uses a table") {
		t.Errorf("it said %q", said)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// accept accepts a notification, and gives up when it waits for as long as a producer would not.
func accept(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, `SELECT pacer.enqueue('{"user_id":"ada"}')`); err != nil {
		t.Fatalf("an accept beside a migration that waits: %v", err)
	}
}

// A reader that never ends ends the migration, and nothing has changed.
func TestMigrationsGiveUp(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	reader := read(t, url)
	err := next(migrations.Migrator{Patience: time.Nanosecond}).Up(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "try again once that has ended") {
		t.Errorf("it ended with %v", err)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := migrations.Check(t.Context(), postgrestest.Connect(t, url)); err != nil {
		t.Error(err)
	}
}
