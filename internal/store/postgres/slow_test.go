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
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// slow is how long each reply of a slow Postgres takes. An accept has time for two of them: its own statement and the
// one that looks up what was accepted before. It has none for a third.
const slow = time.Second

// A process that has lost its connections to a slow Postgres accepts again: after an accept that was too late, a
// connection is made ready for the next, and no connection is pinged for having been idle for a second.
func TestASlowPostgresAccepts(t *testing.T) {
	t.Parallel()
	link, address := slowLink(t)
	w := newWorldOn(t, redistest.Client(t), agenda.Config{}, address, postgres.Direct, func(cfg *postgres.Config) {
		cfg.AcceptTimeout = 29 * slow / 10
	})
	w.pool.Reset()
	latency := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, slow.Milliseconds())
	if _, err := link.Toxics.AddToxicJson(strings.NewReader(latency)); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*forever)
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
