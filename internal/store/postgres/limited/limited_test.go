package limited_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// rowsSQL returns more than the buffers on the way hold.
const rowsSQL = "SELECT repeat('x', 1000) FROM generate_series(1, 50000)"

// forever is longer than any of these tests takes.
const forever = 2 * time.Minute

// connect opens a pool of some connections, which pass through a blackhole and are used as they are.
func connect(t *testing.T, connections int) (*pgxpool.Pool, *pushtest.Blackhole) {
	t.Helper()
	address, err := url.Parse(postgrestest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	hole := pushtest.NewBlackhole(t, address.Host)
	address.Host = hole.Address()
	config, err := pgxpool.ParseConfig(address.String())
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = int32(connections)
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	open := make([]*pgxpool.Conn, connections)
	for i := range open {
		if open[i], err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range open {
		conn.Release()
	}
	return pool, hole
}

// wantOver fails unless what is asked ends by itself, as one whose time is over.
func wantOver(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), forever)
	defer cancel()
	if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("%s: it ended with %v", what, err)
	}
}

// patiently asks under a limit, and under one twice as long when a slow machine needs longer than the first.
func patiently[T any](t *testing.T, ask func(limit time.Duration) (T, error)) T {
	t.Helper()
	for limit := 3 * time.Second; ; limit *= 2 {
		got, err := ask(limit)
		if err == nil {
			return got
		}
		if !errors.Is(err, context.DeadlineExceeded) || limit > forever {
			t.Fatalf("under a limit of %s: %v", limit, err)
		}
	}
}

// Whatever a swallowed connection is asked ends as one whose time is over.
func TestNoWaitIsLongerThanTheLimit(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*limited.Tx, context.Context) error{
		"Commit": (*limited.Tx).Commit, "Rollback": (*limited.Tx).Rollback,
	} {
		pool, hole := connect(t, 1)
		tx := patiently(t, func(limit time.Duration) (*limited.Tx, error) {
			return limited.New(pool, forever).With(limit).Begin(t.Context(), pgx.TxOptions{})
		})
		hole.Swallow()
		wantOver(t, what, func(ctx context.Context) error { return end(tx, ctx) })
	}
	pool, hole := connect(t, 4)
	hole.Swallow()
	db := limited.New(pool, 100*time.Millisecond)
	wantOver(t, "Exec", func(ctx context.Context) error { _, err := db.Exec(ctx, "SELECT 1"); return err })
	wantOver(t, "QueryRow", func(ctx context.Context) error { return db.QueryRow(ctx, "SELECT 1").Scan(new(int)) })
	wantOver(t, "Query", func(ctx context.Context) error {
		rows, err := db.Query(ctx, "SELECT 1")
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	})
	wantOver(t, "Begin", func(ctx context.Context) error { _, err := db.Begin(ctx, pgx.TxOptions{}); return err })
}

// Locks are given back also when whoever began the transaction has gone.
func TestRollbackComesAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	pool, _ := connect(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := limited.New(pool, forever).InTx(ctx, pgx.TxOptions{}, func(*limited.Tx) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the transaction ended with %v", err)
	}
	if stat := pool.Stat(); stat.NewConnsCount() != 1 || stat.IdleConns() != 1 {
		t.Errorf("%d connections were made, %d are idle: the transaction's is closed", stat.NewConnsCount(),
			stat.IdleConns())
	}
}

// Whoever reads many rows, and does something with each, takes longer than the limit with each wait.
func TestASlowReaderIsNotCutOff(t *testing.T) {
	t.Parallel()
	n := patiently(t, func(limit time.Duration) (n int, err error) {
		pool, _ := connect(t, 1)
		rows, err := limited.New(pool, limit).Query(t.Context(), rowsSQL)
		if err != nil {
			return 0, err
		}
		_, err = pgx.ForEachRow(rows, []any{new(string)}, func() error {
			if n++; n == 1 {
				<-time.After(limit + time.Second)
			}
			return nil
		})
		return n, err
	})
	if n != 50_000 {
		t.Errorf("read %d rows", n)
	}
}

func TestRowsThatNoLongerComeAreNotAwaited(t *testing.T) {
	t.Parallel()
	pool, hole := connect(t, 1)
	rows := patiently(t, func(limit time.Duration) (pgx.Rows, error) {
		return limited.New(pool, limit).Query(t.Context(), rowsSQL)
	})
	wantOver(t, "Next", func(context.Context) error {
		_, err := pgx.ForEachRow(rows, []any{new(string)}, func() error { hole.Swallow(); return nil })
		return err
	})
}
