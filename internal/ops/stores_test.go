package ops_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
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
	const redisOnly = `pacer_pool_connections{state="idle",store="redis"} 1
pacer_pool_connections{state="in_use",store="redis"} 0
`
	for want, pool := range map[string]*pgxpool.Pool{
		redisOnly: nil, `pacer_pool_connections{state="idle",store="postgres"} 0
pacer_pool_connections{state="idle",store="redis"} 1
pacer_pool_connections{state="in_use",store="postgres"} 1
pacer_pool_connections{state="in_use",store="redis"} 0
pacer_pool_connections_max{store="postgres"} 3
`: pool,
	} {
		collector, registry := ops.NewPoolCollector(client, pool), prometheus.NewPedanticRegistry()
		registry.MustRegister(collector)
		got := exposed(t, registry, "pacer_pool_connections", "pacer_pool_connections_max")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if problems, err := testutil.CollectAndLint(collector); err != nil || problems != nil {
			t.Errorf("the metrics break the conventions: %v, %v", problems, err)
		}
	}
	held.Release()
}
