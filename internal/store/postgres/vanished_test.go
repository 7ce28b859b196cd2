package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// forever is longer than anything that has a time-out takes, on any machine.
const forever = 2 * time.Minute

// impatient is a relay over the stores of a world, with a short time-out for statements.
func (w *world) impatient(t *testing.T, timeout time.Duration, cfg relay.Config, log *slog.Logger,
) *relay.Relay {
	t.Helper()
	store := postgres.New(w.pool, w.agendas, postgres.Config{StatementTimeout: timeout, Log: log})
	t.Cleanup(func() { _ = store.Close() })
	cfg.Windows = func(string) time.Duration { return time.Hour }
	cfg.Adopted = func(string, int64) {}
	return relay.New(store.Stores, cfg)
}

// wantOver fails unless a call ends by itself, with an error that says what Postgres did not respond to. On a slow
// machine Postgres may be too late for an earlier step: then the call is made again, with a longer time-out.
func wantOver(t *testing.T, want string, timeout time.Duration, call func(context.Context, time.Duration) error) {
	t.Helper()
	want += ": Postgres does not respond"
	for ; ; timeout *= 2 {
		err := ended(t, want, func(ctx context.Context) error { return call(ctx, timeout) })
		timedOut := errors.Is(err, context.DeadlineExceeded)
		if timedOut && strings.Contains(err.Error(), want) {
			return
		}
		if !timedOut || timeout > forever/4 {
			t.Fatalf("it ended with %v, want %q", err, want)
		}
	}
}

// ended makes a call and returns its error, and fails when it does not end by itself.
func ended(t *testing.T, want string, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() { returned <- call(ctx) }()
	select {
	case err := <-returned:
		return err
	case <-time.After(forever):
		cancel()
		t.Fatalf("it ended with %v when it was stopped, want %q by itself", <-returned, want)
	}
	return nil
}

// Whichever step of a round Postgres does not respond to, the round ends, and says so.
func TestNoStepOfARoundWaitsForEver(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]string{
		"partitions":         "read the epochs and marks",
		"marks":              "read the epochs and marks",
		"outbox":             "check again what was refused",
		"accepted_elsewhere": "count what producers accepted",
		"partition_counts":   "note what Redis counts",
		"tallies":            "fold the totals",
		"notifications":      "purge old notifications",
		"history":            "purge the history",
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			w.accept(t, "ada", "free", 1)
			w.deliver(t, "ada")
			release := w.keepLocked(t, "LOCK TABLE pacer."+table)
			wantOver(t, want, 100*time.Millisecond, func(ctx context.Context, timeout time.Duration) error {
				return w.impatient(t, timeout, relay.Config{}, slog.New(slog.DiscardHandler)).Round(ctx)
			})
			release()
			w.round(t)
		})
	}
}

// keepLocked runs a statement in a transaction, which stays open until it is released.
func (w *world) keepLocked(t *testing.T, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(release)
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	return release
}

// A rebuild waits for the claims under way, but not for ever. The next round rebuilds.
func TestARebuildDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 1)
	w.flush(t)
	release := w.keepLocked(t, "SELECT pg_advisory_xact_lock_shared($1)", int64(seam.ClaimLock))
	wantOver(t, "make earlier grants void", time.Second, func(ctx context.Context, timeout time.Duration) error {
		_, err := w.impatient(t, timeout, relay.Config{}, slog.New(slog.DiscardHandler)).RebuildLost(ctx)
		return err
	})
	release()
	w.round(t)
	w.wantAwake(t, "ada")
	w.deliver(t, "ada")
}

// behindBlackhole is a world whose connections to Postgres can be swallowed, and are used as they are.
func behindBlackhole(t *testing.T) (*world, *pushtest.Blackhole) {
	t.Helper()
	address, hole := blackhole(t)
	w := newWorldOn(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000}, address,
		func(config *pgxpool.Config) {
			connect.Direct(config)
			config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
		})
	return w, hole
}

// blackhole is the address of a new database behind a blackhole.
func blackhole(t *testing.T) (string, *pushtest.Blackhole) {
	t.Helper()
	address, err := url.Parse(postgrestest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	hole := pushtest.NewBlackhole(t, address.Host)
	address.Host = hole.Address()
	return address.String(), hole
}

// A firewall forgets the connections to Postgres. The relay says so, and goes on with new ones.
func TestTheRelayLeavesSwallowedConnections(t *testing.T) {
	t.Parallel()
	w, hole := behindBlackhole(t)
	log := make(messages, 1000)
	relay := w.impatient(t, time.Second, relay.Config{Interval: 10 * time.Millisecond},
		slog.New(slog.NewTextHandler(log, nil)))
	hole.Swallow()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { relay.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	late := time.After(forever)
	for _, want := range []string{"the relay can't reach Postgres or Redis", "the relay reaches Postgres and Redis again"} {
		for said := ""; !strings.Contains(said, want); {
			select {
			case said = <-log:
			case <-late:
				t.Fatalf("the relay does not say %q", want)
			}
		}
	}
}

// A swallowed connection costs whoever gets it from the pool a second, not all of a statement's time.
func TestASwallowedConnectionIsLeftBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	address, hole := blackhole(t)
	pool, err := connect.Open(t.Context(), address, func(config *pgxpool.Config) {
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true } // as after ten seconds
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	hole.Swallow()
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	if _, err := pool.Exec(ctx, "SELECT 1"); err != nil {
		t.Error(err)
	}
}

// Postgres gives up clients whose hosts have vanished, and with them their locks.
func TestPostgresLooksForClientsThatHaveVanished(t *testing.T) {
	t.Parallel()
	pool, err := connect.Open(t.Context(), postgrestest.URL(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for setting, want := range map[string]string{
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "25000",
	} {
		var got string
		if err := pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", setting, got, err, want)
		}
	}
}

// A relay that stands still while it empties the outbox gives its rows back, and places them when it continues.
func TestARelayThatStandsStillGivesTheOutboxBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	entered, goOn := make(chan struct{}, 1000), make(chan struct{})
	relay := w.impatient(t, time.Second, relay.Config{
		Interval: 10 * time.Millisecond,
		Check:    func(*notification.Notification) error { entered <- struct{}{}; <-goOn; return nil },
	}, slog.New(slog.DiscardHandler))
	w.enqueueMany(t, "ada", 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { relay.Run(ctx); close(ended) }()
	defer func() { cancel(); <-ended }()
	<-entered
	waiting, done := context.WithTimeout(t.Context(), forever)
	defer done()
	_, err := w.pool.Exec(waiting, "SELECT key FROM pacer.outbox FOR UPDATE")
	close(goOn)
	if err != nil {
		t.Fatalf("the outbox is locked: %v", err)
	}
	w.await(t, "the notification is in its backlog", func() bool { return w.inBacklogs(t) == 1 })
}
