package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/test/linktest"
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
	link, address := linktest.URL(t, postgrestest.URL(t))
	w := newWorldOn(t, redistest.Client(t), agenda.Config{}, address, connect.Direct, func(cfg *postgres.Config) {
		cfg.AcceptTimeout = 29 * slow / 10
	})
	w.pool.Reset()
	latency := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, slow.Milliseconds())
	if _, err := link.Toxics.AddToxicJson(strings.NewReader(latency)); err != nil {
		t.Fatal(err)
	}
	accept := func(ctx context.Context) error {
		_, err := w.store.Accept(ctx, []*notification.Notification{{
			ID: "one", UserID: "ada", Category: "free", Channel: "log", Body: "hello",
		}})
		return err
	}
	look := func(ctx context.Context) error {
		_, err := w.store.Holder(ctx, "k")
		return err
	}
	for _, step := range []func(context.Context) error{accept, accept, look} { // the second finds the first
		w.succeeds(t, step)
		<-time.After(3 * time.Second / 2) // long enough for the pool to doubt a connection
	}
	w.pool.Reset()
	w.succeeds(t, look)
}

// succeeds takes a step until Postgres is not too late for it.
func (w *world) succeeds(t *testing.T, step func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*forever)
	defer cancel()
	for n := 1; ; n++ {
		err := step(ctx)
		if err == nil {
			t.Logf("at try %d", n)
			return
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d tries: %v", n, err)
		}
	}
}
