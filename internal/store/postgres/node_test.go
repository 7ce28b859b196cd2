package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
)

// nodePool connects to an empty database as a process does, through a network that can swallow its connections.
func nodePool(t *testing.T) (*pgxpool.Pool, *pushtest.Blackhole) {
	t.Helper()
	address, hole := blackhole(t)
	pool, err := connect.Open(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, hole
}

// takeNode takes a database. It gives what the process logs, and what it is told when it has lost the database.
func takeNode(t *testing.T, pool *pgxpool.Pool) (n *connect.Node, log messages, lost <-chan error) {
	t.Helper()
	log, told := make(messages, 1000), make(chan error, 1)
	n, err := connect.TakeNode(t.Context(), pool, func(why error) { told <- why },
		slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Release(); err != nil {
			t.Error(err)
		}
	})
	return n, log, told
}

// endNode ends the connection that keeps a database for a process, as a restart of Postgres does.
func endNode(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var ended bool
	if err := pool.QueryRow(t.Context(), `SELECT pg_terminate_backend(pid, 60000) FROM pg_locks
		WHERE locktype = 'advisory' AND classid = 0 AND objid = $1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
		connect.NodeLock).Scan(&ended); err != nil || !ended {
		t.Fatalf("the connection with the lock has ended: %t, %v", ended, err)
	}
}

// A restart of Postgres frees the lock. After a cut in the network it stays with a connection that nobody has. Either
// way the process takes it again.
func TestANodeTakesItsDatabaseAgain(t *testing.T) {
	t.Parallel()
	for _, swallowed := range []bool{false, true} {
		t.Run(map[bool]string{false: "ended", true: "swallowed"}[swallowed], func(t *testing.T) {
			t.Parallel()
			pool, hole := nodePool(t)
			node, log, _ := takeNode(t, pool)
			if swallowed {
				hole.Swallow()
			} else {
				endNode(t, pool)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan struct{})
			go func() { node.Run(ctx); close(ran) }()
			late := time.After(forever)
			for said := ""; !strings.Contains(said, "this process has its database to itself again"); {
				select {
				case said = <-log:
				case <-late:
					t.Fatal("it does not take the database again")
				}
			}
			cancel()
			<-ran
			if _, err := connect.TakeNode(t.Context(), pool, nil, nil); !isRefusal(err) {
				t.Errorf("another process gets %v, want a refusal", err)
			}
		})
	}
}

// The process learns that another one has its database, and does not take it back.
func TestANodeLearnsThatItsDatabaseIsTaken(t *testing.T) {
	t.Parallel()
	pool, _ := nodePool(t)
	node, _, lost := takeNode(t, pool)
	endNode(t, pool)
	takeNode(t, pool)
	node.Run(t.Context())
	if why := <-lost; !isRefusal(why) || !strings.Contains(why.Error(), "another process without REDIS_URL took this") {
		t.Errorf("it is told %v, want a refusal", why)
	}
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*refusal.Error](err)
	return ok
}
