package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// others are settings of a database or role, each turned away from its default, that nothing may depend on.
var others = []string{
	"datestyle = 'German, DMY'", "intervalstyle = 'sql_standard'", "timezone = 'Asia/Kathmandu'",
	"bytea_output = 'escape'", "extra_float_digits = -15", "search_path = 'nowhere'", "client_encoding = 'LATIN1'",
	"standard_conforming_strings = off", "default_transaction_isolation = 'serializable'",
	"default_transaction_deferrable = on", "quote_all_identifiers = on", "array_nulls = off",
	"transform_null_equals = on", "backslash_quote = off", "check_function_bodies = off",
	"plpgsql.variable_conflict = 'error'", "plpgsql.extra_errors = 'all'", "xmlbinary = 'hex'",
	"statement_timeout = '1min'", "lock_timeout = '1s'",
}

// Whatever a database sets for its sessions, all migrations run, both ways, and notifications of the API and of a
// producer's transaction are accepted, delivered, and rebuilt when Redis has lost them.
func TestNothingDependsOnASessionsSettings(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	admin := postgrestest.Connect(t, url)
	for _, setting := range others { // all at once: migrating takes a second
		statement := "ALTER DATABASE " + pgx.Identifier{admin.Config().Database}.Sanitize() + " SET " + setting
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []func(testing.TB){up(url), down(url), up(url)} {
		step(t)
	}
	cfg := agenda.Config{MaxCrashes: 1000, Lease: time.Hour}
	w := newWorldOn(t, redistest.Client(t), cfg, url, connect.Direct)
	w.accept(t, "ada", "free", 2)
	w.wantDelivered(t, "ada", "ada-free-0")
	w.loseRedis(t)
	w.wantDelivered(t, "ada", "ada-free-1")
	producer := postgrestest.Connect(t, url)
	// The regular expressions of pacer.enqueue hold backslashes.
	if _, err := producer.Exec(t.Context(), `SELECT pacer.enqueue('{"id": "own", "user_id": "ben", "category": "free",
		"data": {"a": [1.50, null]}, "expires_at": "2099-01-02T03:04:05+05:45"}')`); err != nil {
		t.Fatal(err)
	}
	w.round(t)
	w.wantDelivered(t, "ben", "own")
	var expires time.Time
	err := w.pool.QueryRow(t.Context(), "SELECT expires_at FROM pacer.notifications WHERE id = 'own'").Scan(&expires)
	if want := time.Date(2099, 1, 1, 21, 19, 5, 0, time.UTC); err != nil || !expires.Equal(want) {
		t.Errorf("expires at %s, %v; want %s", expires, err, want)
	}
}

// up and down apply all migrations, or take all back.
func up(url string) func(testing.TB) {
	return func(tb testing.TB) {
		tb.Helper()
		if err := connect.Migrate(tb.Context(), url, migrations.Up); err != nil {
			tb.Fatal(err)
		}
	}
}

func down(url string) func(testing.TB) {
	return func(tb testing.TB) {
		tb.Helper()
		list, err := migrations.Status(tb.Context(), url)
		for range list {
			if err := connect.Migrate(tb.Context(), url, migrations.Down); err != nil {
				tb.Fatal(err)
			}
		}
		if err != nil || len(list) == 0 {
			tb.Fatal(len(list), err)
		}
	}
}
