package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// slow is how long each reply of a slow Postgres takes. An accept has time for two of them: its own statement and the
// one that looks up what was accepted before.
const slow = 500 * time.Millisecond

// A process that has lost its connections to a slow Postgres accepts again: what a connection needs before its first
// statement is not on the time of an accept, and no connection is closed for having been idle.
func TestASlowPostgresAccepts(t *testing.T) {
	t.Parallel()
	link, address := slowLink(t)
	w := newWorldOn(t, redistest.Client(t), agenda.Config{}, address, postgres.Direct, func(cfg *postgres.Config) {
		cfg.AcceptTimeout = 5 * slow / 2
	})
	w.pool.Reset()
	latency := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, slow.Milliseconds())
	if _, err := link.Toxics.AddToxicJson(strings.NewReader(latency)); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), forever)
		for n := 0; ; n++ {
			accepted, err := w.store.Accept(ctx, []*notification.Notification{{
				ID: "one", UserID: "ada", Category: "free", Channel: "log", Body: "hello",
			}})
			if err == nil {
				t.Logf("accepted at try %d: %+v", n+1, accepted)
				break
			}
			if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("known %t: after %d tries: %v", known, n+1, err)
			}
		}
		cancel()
		<-time.After(3 * time.Second / 2) // long enough for the pool to doubt a connection
	}
}

// A connection is made, and serves what it can, while the table of notifications is locked.
func TestConnectionsAreMadeWhileATableIsLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.keepLocked(t, "LOCK TABLE pacer.notifications")
	pool, err := pgxpool.NewWithConfig(t.Context(), w.pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	var partitions int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM pacer.partitions").Scan(&partitions); err != nil || partitions == 0 {
		t.Errorf("%d partitions, %v", partitions, err)
	}
}

// slowLink makes a proxy before a database.
func slowLink(t *testing.T) (link *toxiproxy.Proxy, address string) {
	t.Helper()
	at, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	link = toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", at.Host)
	if err := link.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Stop)
	at.Host = link.Listen
	return link, at.String()
}
