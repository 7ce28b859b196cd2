package ops_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A process reports how its connections are used; one without Postgres tells nothing of Postgres.
func TestStoreConnections(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(postgrestest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 3
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const help = "# HELP pacer_pool_connections Connections of this process to a store, in use or idle.\n" +
		"# TYPE pacer_pool_connections gauge\n"
	redisOnly := help + `
pacer_pool_connections{state="idle",store="redis"} 1
pacer_pool_connections{state="in_use",store="redis"} 0
`
	both := redisOnly + `
pacer_pool_connections{state="idle",store="postgres"} 0
pacer_pool_connections{state="in_use",store="postgres"} 1
# HELP pacer_pool_connections_max The most connections that this process makes to a store.
# TYPE pacer_pool_connections_max gauge
pacer_pool_connections_max{store="postgres"} 3
`
	compare := func(name string, pool *pgxpool.Pool, want string) {
		collector := ops.NewPoolCollector(client, pool)
		if err := testutil.CollectAndCompare(collector, strings.NewReader(want), "pacer_pool_connections",
			"pacer_pool_connections_max"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if problems, err := testutil.CollectAndLint(collector); err != nil || problems != nil {
			t.Errorf("%s: the metrics break the conventions: %v, %v", name, problems, err)
		}
	}
	compare("Redis alone", nil, redisOnly)
	compare("with Postgres", pool, both)
	held.Release()
}
