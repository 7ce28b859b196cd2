package migrations_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]func(testing.TB, string) string{
		"Direct":    func(_ testing.TB, url string) string { return url },
		"PgBouncer": func(tb testing.TB, url string) string { tb.Helper(); return postgrestest.PgBouncer(tb, url) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := postgrestest.EmptyURL(t)
			address := through(t, url)
			var all sync.WaitGroup
			for range 8 { // more than PgBouncer has connections
				all.Go(func() {
					if err := migrations.Up(t.Context(), address); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if err := migrations.Check(t.Context(), postgrestest.Connect(t, url)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDownLeavesNothingAndUpComesBack(t *testing.T) {
	t.Parallel()
	url := postgrestest.EmptyURL(t)
	conn := postgrestest.Connect(t, url)
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	list, err := migrations.Status(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	for range list {
		if err := migrations.Down(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
	const relations = `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = 'pacer'`
	if left := count(t, conn, relations); left != 0 {
		t.Errorf("%d relations are left after the way down", left)
	}
	if version := versionError(t, conn); version.Found != 0 {
		t.Errorf("after the way down the version is %d", version.Found)
	}
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if err := migrations.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	conn := postgrestest.Connect(t, url)
	if err := migrations.Down(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if version := versionError(t, conn); version.Found != 0 || !strings.Contains(version.Error(), "no schema") {
		t.Errorf("a schema that was taken back: %+v: %v", version, version)
	}
	older := migrations.VersionError{Found: 1, Wanted: 2}
	if !strings.Contains(older.Error(), "needs 2: run dispatcher migrate up") {
		t.Errorf("an older schema: %v", &older)
	}
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(),
		"INSERT INTO public.pacer_migrations (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	if version := versionError(t, conn); version.Found != 9999 ||
		!strings.Contains(version.Error(), "newer dispatcher") {
		t.Errorf("a newer schema: %+v: %v", version, version)
	}
	empty := postgrestest.Connect(t, postgrestest.EmptyURL(t))
	if version := versionError(t, empty); version.Found != 0 || !strings.Contains(version.Error(), "no schema") {
		t.Errorf("no schema: %+v: %v", version, version)
	}
}

func versionError(t *testing.T, conn *pgx.Conn) *migrations.VersionError {
	t.Helper()
	version, ok := errors.AsType[*migrations.VersionError](migrations.Check(t.Context(), conn))
	if !ok {
		t.Fatal("the version is taken for this program's")
	}
	return version
}

func count(t *testing.T, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(context.Background(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
