package migrations_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// tables are those of the schema that everybody writes to.
const tables = "pacer.notifications, pacer.outbox, pacer.unplaced, pacer.attempts, pacer.preferences"

// read reads the tables in a transaction that stays open, as a backup does.
func read(t *testing.T, url string) pgx.Tx {
	t.Helper()
	tx, err := postgrestest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+tables+" IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return tx
}

// Migrations wait for whoever reads the tables, and nobody waits behind them: each accept comes through soon, while the
// reader stays.
func TestMigrationsBesideAReaderStopNobody(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	reader := read(t, url)
	// The index belongs to a table that the reader has: dropping it needs all of the table.
	var told atomic.Pointer[string]
	done := make(chan error, 1)
	go func() {
		m := migrations.Migrator{Tell: func(text string) { told.Store(&text) }}
		if err := m.Down(t.Context(), url); err != nil {
			done <- err
			return
		}
		done <- m.Up(t.Context(), url)
	}()
	conn := postgrestest.Connect(t, url)
	for waited := 0; waited < 3 || told.Load() == nil; waited++ { // it has been tried some times by then
		accept(t, conn)
		select {
		case err := <-done:
			t.Fatalf("it ended beside the reader: %v", err)
		case <-time.After(time.Second):
		}
	}
	if said := *told.Load(); !strings.Contains(said, "a transaction uses a table") {
		t.Errorf("it said %q", said)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := migrations.Check(t.Context(), conn); err != nil {
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
	err := migrations.Migrator{Patience: time.Nanosecond}.Down(t.Context(), url)
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
