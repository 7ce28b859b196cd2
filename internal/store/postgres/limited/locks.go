package limited

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
)

const (
	// backgroundWait is how long a statement waits for a lock that nobody waits for, and that all processes of a
	// deployment run at the same time. againWait is for one that is tried again soon.
	backgroundWait, againWait = "100ms", "20ms"
	// patience is how long a caller waits for a lock. It asks again after each pause.
	patience, pause = 1500 * time.Millisecond, 100 * time.Millisecond
)

// ErrLocked says that something was not tried, because another transaction's lock was in the way for too long.
var ErrLocked = errors.New("locked by another transaction")

// LockedOut reports whether something was not done, or rolled back, because another transaction kept a lock for too
// long.
func LockedOut(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && failed.Code == "55P03" || errors.Is(err, ErrLocked)
}

// Impatient runs each statement in a transaction of its own that waits for no lock longer than Wait, a time as Postgres
// takes it. The transaction sets that itself: a pooler keeps no setting.
type Impatient struct {
	Pool *pgxpool.Pool
	Wait string
}

// Query runs a statement, and has its rows read.
func (i Impatient) Query(ctx context.Context, sql string, read func(pgx.Rows) error, args ...any) error {
	b := &pgx.Batch{} // one round trip, one transaction
	b.Queue("SELECT set_config('lock_timeout', $1, true)", i.Wait)
	b.Queue(sql, args...).Query(read)
	return i.Pool.SendBatch(ctx, b).Close()
}

// Exec runs a statement that returns no rows.
func (i Impatient) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = i.Query(ctx, sql, func(none pgx.Rows) error {
		none.Close()
		tag = none.CommandTag()
		return none.Err()
	}, args...)
	return tag, err
}

// Patient has callers wait for a lock without a connection: each asks again and again, a few at a time.
type Patient struct {
	Impatient
	room *semaphore.Weighted
}

// NewPatient makes a Patient that uses a quarter of a pool's connections.
func NewPatient(pool *pgxpool.Pool) Patient {
	return Patient{Impatient{pool, againWait}, semaphore.NewWeighted(max(1, int64(pool.Config().MaxConns)/4))}
}

// Do does something until it is not locked out, or the patience is over.
func (p Patient) Do(ctx context.Context, do func() error) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := ErrLocked
	for p.room.Acquire(within, 1) == nil {
		err = do()
		p.room.Release(1)
		if !LockedOut(err) {
			return err
		}
		select {
		case <-within.Done():
			return err
		case <-time.After(pause):
		}
	}
	return errors.Join(ctx.Err(), err)
}

// Query runs a statement, and has its rows read.
func (p Patient) Query(ctx context.Context, sql string, read func(pgx.Rows) error, args ...any) error {
	return p.Do(ctx, func() error { return p.Impatient.Query(ctx, sql, read, args...) })
}

// Exec runs a statement that returns no rows.
func (p Patient) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = p.Do(ctx, func() error {
		tag, err = p.Impatient.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}
