package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(tb testing.TB) storetest.Subject {
		tb.Helper()
		return newWorld(tb, redistest.Client(tb)).subject(tb)
	})
}

// Behind a pooler in transaction mode, and with the Redis inside the process, the store keeps the same promises, also
// when it copies whatever it accepts.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(tb testing.TB) storetest.Subject {
		tb.Helper()
		w := newWorldOn(tb, redistest.Embedded(tb), agenda.Config{MaxCrashes: 1000},
			postgrestest.PgBouncer(tb, postgrestest.URL(tb)), connect.Pooled, copies)
		return w.subject(tb)
	})
}

// copies has a store copy whatever it accepts, and insert it only when an id is taken.
func copies(cfg *postgres.Config) {
	cfg.CopyLeast, cfg.MadeHere = 1, func(string) bool { return true }
}

// A pooler is noticed, whether it refuses the settings of a connection or ignores them.
func TestPoolersAreNoticed(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	ignoring := "ignore_startup_parameters = " + strings.Join(slices.Collect(maps.Keys(connect.SessionParams())), ",")
	for name, c := range map[string]struct {
		address string
		want    error
		refused bool
	}{
		"Direct":   {address: address},
		"Ignoring": {address: postgrestest.PgBouncer(t, address, ignoring), want: connect.ErrPooler},
		"Refusing": {address: postgrestest.PgBouncer(t, address), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := pgxpool.ParseConfig(c.address)
			if err != nil {
				t.Fatal(err)
			}
			connect.Direct(config)
			conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
			if c.refused || err != nil {
				if !c.refused || !connect.RefusedByPooler(err) {
					t.Fatalf("connected with %v", err)
				}
				return
			}
			defer func() { _ = conn.Close(t.Context()) }()
			if err := connect.FindPooler(t.Context(), conn); !errors.Is(err, c.want) {
				t.Errorf("found %v, want %v", err, c.want)
			}
		})
	}
}

// subject is the world for the suite of all stores.
func (w *world) subject(tb testing.TB) storetest.Subject {
	tb.Helper()
	cfg := w.cfg
	cfg.Lease = storetest.ShortLease
	_, crashing := open(tb, w.pool, w.redis, cfg, w.change...)
	kept := records.New(w.pool)
	return storetest.Subject{
		Store: w.store, Crashing: crashing, Repair: w.repair,
		Want: func(ctx context.Context, types []events.Type) error {
			return errors.Join(control.New(kept).WantEvents(ctx, types, time.Hour), w.agendas.Events.Want(types))
		},
		Events: func(ctx context.Context) ([]events.Event, error) {
			if err := outbox.GatherEvents(ctx, w.store.Stores); err != nil {
				return nil, err
			}
			return events.NewStore(kept).After(ctx, 0, 100)
		},
	}
}

// world is a store over a database and a Redis of its own.
type world struct {
	pool    *pgxpool.Pool
	redis   *goredis.Client
	agendas *agenda.Agendas
	store   *postgres.Store
	relay   *relay.Relay

	// cfg and change are what the store was opened with.
	cfg    agenda.Config
	change []func(*postgres.Config)

	// held are the wake-ups that the worker of this world has at work, by user; rounds is how often it has
	// asked, pulled how many wake-ups it was given.
	held           map[string]dispatch.Wakeup
	rounds, pulled int
}

func newWorld(tb testing.TB, client *goredis.Client) *world {
	tb.Helper()
	return newWorldWith(tb, client, agenda.Config{MaxCrashes: 1000})
}

// newWorldWith is newWorld with the crashes and the lease that the agendas allow, and with settings when there are any.
func newWorldWith(tb testing.TB, client *goredis.Client, cfg agenda.Config) *world {
	tb.Helper()
	return newWorldOn(tb, client, cfg, postgrestest.URL(tb), connect.Direct)
}

// newWorldOn is a world on the database at address, with connections as prepare makes them.
func newWorldOn(tb testing.TB, client *goredis.Client, cfg agenda.Config, address string,
	prepare func(*pgxpool.Config), change ...func(*postgres.Config),
) *world {
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
	w := &world{pool: pool, redis: client, cfg: cfg, change: change, held: map[string]dispatch.Wakeup{}}
	w.agendas, w.store = open(tb, pool, client, cfg, change...)
	w.relay = relay.New(w.store.Stores, relay.Config{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func(string) time.Duration { return time.Hour },
	})
	if _, err := w.relay.RebuildLost(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return w
}

// open opens a store with the lease, the crashes and the settings that its agendas allow.
func open(tb testing.TB, pool *pgxpool.Pool, client *goredis.Client, cfg agenda.Config,
	change ...func(*postgres.Config),
) (*agenda.Agendas, *postgres.Store) {
	tb.Helper()
	cfg.Lease = cmp.Or(cfg.Lease, storetest.Lease)
	if cfg.Settings == nil {
		cfg.Settings = storetest.Settings
	}
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: storetest.Partitions, Settings: cfg.Settings, Lease: cfg.Lease, MaxCrashes: cfg.MaxCrashes,
		Guarded: true, Full: cfg.Full, Grace: 100 * time.Millisecond, Retention: time.Minute,
	})
	if err != nil {
		tb.Fatal(err)
	}
	kept := postgres.Config{
		Lease: cfg.Lease - 50*time.Millisecond, MaxCrashes: storetest.MaxCrashes, Log: slog.New(slog.DiscardHandler),
		RowsLooked:    7, // a listing needs many statements
		PlacePatience: time.Minute, AcceptTimeout: time.Minute, StatementTimeout: time.Minute,
		ClaimPatience: time.Minute,     // a busy machine
		LostPatience:  time.Nanosecond, // no other process of a world rebuilds meanwhile
		MayRefuse:     func(category string) bool { return category == "overflow-refuse" },
	}
	for _, c := range change {
		c(&kept)
	}
	store := postgres.New(pool, agendas, kept)
	tb.Cleanup(func() { _ = store.Close() })
	return agendas, store
}

// repair does a deployment's background work once.
func (w *world) repair(ctx context.Context) error {
	for partition := range storetest.Partitions {
		if _, err := w.agendas.Sweep(ctx, partition); err != nil {
			return err
		}
	}
	return w.relay.Round(ctx)
}
