package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// NodeLock is the advisory lock of a process that has the database to itself: "node" in ASCII.
const NodeLock = 0x6e6f6465

const (
	// nodeInterval is how often a Node looks whether it still has its lock.
	nodeInterval = 2 * time.Second
	// nodeTimeout bounds each look.
	nodeTimeout = 5 * time.Second
)

// TryLockSQL takes an advisory lock until its transaction ends, and lets the transaction idle for as long as it likes:
// the keepalives of [SessionParams] end it when its host vanishes.
const TryLockSQL = `
SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', '0', true)`

// Node has a database to itself. A process with an in-process Redis has a limiter of its own, so two of them on one
// database would each allow the full limits.
//
// The lock belongs to a transaction that is kept open: the lock of a session would stay with the connection of a
// pooler. When the process's host vanishes, the keepalives of [SessionParams] end it. It also ends whenever Postgres
// restarts; so Run takes it again.
type Node struct {
	pool    *pgxpool.Pool
	lost    func(error)
	log     *slog.Logger
	tx      pgx.Tx  // its transaction; nil while it is lost
	backend backend // has the lock, or had it last
}

// backend is the server's side of a connection. Numbers of processes come again, so it takes both.
type backend struct {
	pid   int32
	since time.Time
}

// TakeNode takes the database for this process. It is a [refusal.Error] when another one has it. lost is told one when
// another has taken it later.
func TakeNode(ctx context.Context, pool *pgxpool.Pool, lost func(error), log *slog.Logger) (*Node, error) {
	n := &Node{pool: pool, lost: lost, log: log}
	mine, err := n.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("take the database for this process: %w", err)
	}
	if !mine {
		return nil, refusal.New("another process without REDIS_URL is using this database: set the same REDIS_URL for all processes")
	}
	return n, nil
}

// take tries to take the lock.
func (n *Node) take(ctx context.Context) (mine bool, err error) {
	tx, err := n.pool.Begin(ctx)
	if err != nil {
		return false, err
	}
	var b backend
	err = errors.Join(
		tx.QueryRow(ctx, TryLockSQL, int64(NodeLock)).Scan(&mine),
		tx.QueryRow(ctx, "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()").Scan(&b.pid, &b.since),
	)
	if err != nil || !mine {
		return false, errors.Join(err, tx.Rollback(ctx))
	}
	n.tx, n.backend = tx, b
	return true, nil
}

// Run makes sure of the lock until ctx ends, or another process has taken the database.
func (n *Node) Run(ctx context.Context) {
	ticker := beat.NewTicker(nodeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
		err := n.look(context.WithoutCancel(ctx)) // a statement that is cancelled would end the transaction
		if _, taken := errors.AsType[*refusal.Error](err); taken {
			n.lost(err)
			return
		}
		if err != nil { // the lost lock has been told of
			n.log.DebugContext(ctx, "could not take back the database's lock; retrying", "error", err)
		}
	}
}

// look takes the lock again when the connection that had it has ended.
func (n *Node) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	if n.tx != nil {
		_, err := n.tx.Exec(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		n.log.WarnContext(ctx, "this process has lost the lock that reserves the database for it; taking it again", "error",
			limited.Describe("keep the database for this process", err))
		_ = n.tx.Rollback(ctx) // whatever becomes of it, the connection is not used any more
		n.tx = nil
	}
	if ending, err := n.endBackend(ctx); err != nil || ending {
		return err
	}
	mine, err := n.take(ctx)
	switch {
	case err != nil:
		return limited.Describe("take the database for this process again", err)
	case !mine:
		return refusal.New("another process without REDIS_URL took this database over while this one could not reach it: set the same REDIS_URL for all processes")
	}
	n.log.InfoContext(ctx, "this process has its database to itself again")
	return nil
}

// endBackend ends the server's side of the connection that had the lock: after a cut in the network it may be there for
// a while yet, and keeps the lock from its own process. It reports whether it was there.
func (n *Node) endBackend(ctx context.Context) (there bool, err error) {
	err = n.pool.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) > 0 FROM pg_stat_activity WHERE pid = $1 "+
		"AND backend_start = $2", n.backend.pid, n.backend.since).Scan(&there)
	if err != nil {
		return false, limited.Describe("end the connection that had the database for this process", err)
	}
	return there, nil
}

// Release gives up the database. It must not be called while Run runs.
func (n *Node) Release() error {
	if n.tx == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return n.tx.Rollback(ctx)
}
