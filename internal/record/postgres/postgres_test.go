package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/postgrestest"
	pacerqueue "github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/record/postgres"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(testing.TB) *goredis.Client{"Redis": redistest.Client, "Miniredis": redistest.Mini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recordtest.Run(t, func(tb testing.TB) recordtest.Subject {
				tb.Helper()
				w := newWorld(tb, client(tb))
				return recordtest.Subject{Record: w.record, Repair: w.repair}
			})
		})
	}
}

// Behind a pooler in transaction mode the record keeps the same promises.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	recordtest.Run(t, func(tb testing.TB) recordtest.Subject {
		tb.Helper()
		w := newWorldOn(tb, redistest.Client(tb), mailbox.Config{MaxCrashes: 1000, Lease: recordtest.Lease},
			postgrestest.PgBouncer(tb, postgrestest.URL(tb)), postgres.Pooled)
		return recordtest.Subject{Record: w.record, Repair: w.repair}
	})
}

// A pooler is found out, whether it refuses the settings of a connection or takes no notice of them.
func TestPoolersAreFoundOut(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	ignoring := "ignore_startup_parameters = " + strings.Join(slices.Collect(maps.Keys(postgres.SessionParams())), ",")
	for name, c := range map[string]struct {
		address string
		want    error
		refused bool
	}{
		"Direct":   {address: address},
		"Ignoring": {address: postgrestest.PgBouncer(t, address, ignoring), want: postgres.ErrPooler},
		"Refusing": {address: postgrestest.PgBouncer(t, address), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := pgxpool.ParseConfig(c.address)
			if err != nil {
				t.Fatal(err)
			}
			postgres.Direct(config)
			conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
			if c.refused || err != nil {
				if !c.refused || !postgres.RefusedByPooler(err) {
					t.Fatalf("connected with %v", err)
				}
				return
			}
			defer func() { _ = conn.Close(t.Context()) }()
			if err := postgres.FindPooler(t.Context(), conn); !errors.Is(err, c.want) {
				t.Errorf("found %v, want %v", err, c.want)
			}
		})
	}
}

// queue puts ticks into asynq's and keeps those that it was given.
type queue struct {
	*pacerqueue.Client
	mu    sync.Mutex
	ticks map[string]dispatch.Tick
}

// Enqueue implements [dispatch.Queue].
func (q *queue) Enqueue(ctx context.Context, alarms ...dispatch.Alarm) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range alarms {
		q.ticks[a.Tick.ID] = a.Tick
	}
	return q.Client.Enqueue(ctx, alarms...)
}

// world is a record over a database and a Redis of its own.
type world struct {
	pool   *pgxpool.Pool
	redis  *goredis.Client
	boxes  *mailbox.Store
	record *postgres.Record
	relay  *postgres.Relay
	queue  *queue
}

func newWorld(tb testing.TB, client *goredis.Client) *world {
	tb.Helper()
	return newWorldWith(tb, client, mailbox.Config{MaxCrashes: 1000, Lease: recordtest.Lease})
}

// newWorldWith is newWorld with the crashes and the lease that the mailboxes allow, and with terms when there are any.
func newWorldWith(tb testing.TB, client *goredis.Client, cfg mailbox.Config) *world {
	tb.Helper()
	return newWorldOn(tb, client, cfg, postgrestest.URL(tb), postgres.Direct)
}

// newWorldOn is a world on the database at address, with connections as prepare makes them.
func newWorldOn(tb testing.TB, client *goredis.Client, cfg mailbox.Config, address string, prepare func(*pgxpool.Config)) *world {
	tb.Helper()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		tb.Fatal(err)
	}
	prepare(config)
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	w := &world{pool: pool, redis: client, queue: &queue{Client: pacerqueue.NewClient(client), ticks: map[string]dispatch.Tick{}}}
	if cfg.Terms == nil {
		cfg.Terms = recordtest.Terms
	}
	w.boxes, err = mailbox.New(client, mailbox.Config{
		Lanes: recordtest.Lanes, Terms: cfg.Terms, Lease: cfg.Lease, MaxCrashes: cfg.MaxCrashes, Guarded: true,
		Grace: 100 * time.Millisecond, Retention: time.Minute,
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.record = postgres.New(pool, w.boxes, postgres.Config{
		Lease: cfg.Lease - 50*time.Millisecond, MaxCrashes: recordtest.MaxCrashes, PlacePatience: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	tb.Cleanup(func() { _ = w.record.Close() })
	w.relay = postgres.NewRelay(w.record, postgres.RelayConfig{
		Queue: w.queue, Check: func(*notification.Notification) error { return nil }, Windows: func() time.Duration { return time.Hour },
	})
	if _, err := w.relay.RebuildLost(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return w
}

// repair does what a deployment does in the background.
func (w *world) repair(ctx context.Context) error {
	for lane := range recordtest.Lanes {
		if _, err := w.boxes.Sweep(ctx, lane); err != nil {
			return err
		}
	}
	return w.relay.Round(ctx)
}
