package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// lockID is the advisory lock under which migrations run: "pacer" in ASCII.
const lockID = 0x7061636572

const (
	// lockTimeout is how long one process waits for another's migrations.
	lockTimeout = time.Minute
	// lockInterval is how often it tries to take the lock.
	lockInterval = 200 * time.Millisecond
)

// locker makes processes that migrate at once take turns. It implements goose's SessionLocker with the lock of a
// transaction that stays open: behind a pooler the lock of a session would stay with a connection that others get.
type locker struct {
	db *sql.DB
	tx *sql.Tx // nil while the lock is not held
}

// SessionLock implements goose's SessionLocker. A process that waits keeps no connection: a pooler may have few.
func (l *locker) SessionLock(ctx context.Context, _ *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		mine, err := l.try(ctx)
		if err != nil || mine {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process has been migrating the schema for %v: %w", lockTimeout, ctx.Err())
		case <-ticker.C:
		}
	}
}

// try takes the lock when it is free.
func (l *locker) try(ctx context.Context) (mine bool, err error) {
	tx, err := l.db.BeginTx(context.WithoutCancel(ctx), nil) // it ends with SessionUnlock
	if err != nil {
		return false, fmt.Errorf("begin to lock the migrations: %w", err)
	}
	// The transaction stays open for as long as the migrations take.
	err = tx.QueryRowContext(ctx,
		"SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', '0', true)",
		int64(lockID)).Scan(&mine)
	if err == nil && mine {
		l.tx = tx
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("lock the migrations: %w", err)
	}
	return false, errors.Join(err, tx.Rollback())
}

// SessionUnlock implements goose's SessionLocker.
func (l *locker) SessionUnlock(context.Context, *sql.Conn) error {
	if l.tx == nil {
		return nil
	}
	tx := l.tx
	l.tx = nil
	return tx.Rollback()
}
