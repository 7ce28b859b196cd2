// Package recordtest runs tests of records, and of what is kept in them, on each kind of store.
package recordtest

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/record"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// Store is an empty store.
type Store struct {
	record.Store
	// Age makes all lines of logs as old; nil on Redis, which has no clock that a test can turn.
	Age func(t testing.TB, by time.Duration)
}

// Each runs a test on each kind of store.
func Each(t *testing.T, run func(t *testing.T, s Store)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) Store{
		"Redis":     func(tb testing.TB) Store { return OnRedis(redistest.Client(tb)) },
		"Miniredis": func(tb testing.TB) Store { return OnRedis(redistest.Mini(tb)) },
		"Postgres":  func(tb testing.TB) Store { return OnPostgres(tb, postgrestest.URL(tb), connect.Direct) },
		"PgBouncer": func(tb testing.TB) Store {
			return OnPostgres(tb, postgrestest.PgBouncer(tb, postgrestest.URL(tb)), connect.Pooled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}

// OnRedis is the store on a Redis.
func OnRedis(client *goredis.Client) Store { return Store{Store: redis.NewRecords(client)} }

// OnPostgres is the store in a database, with connections as prepare makes them.
func OnPostgres(tb testing.TB, url string, prepare func(*pgxpool.Config)) Store {
	tb.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	prepare(config)
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return Store{Store: records.New(pool), Age: func(tb testing.TB, by time.Duration) {
		tb.Helper()
		if _, err := pool.Exec(tb.Context(), `UPDATE pacer.lines SET at = at - $1 * interval '1 second'`,
			int64(by.Seconds())); err != nil {
			tb.Fatal(err)
		}
	}}
}
