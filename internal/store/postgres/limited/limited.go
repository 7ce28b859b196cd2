// Package limited bounds how long a statement waits for Postgres.
//
// A host that has vanished, or a network that swallows what is sent, returns no error: a statement would wait until the
// kernel gives the connection up, a quarter of an hour or longer. The bound is on each wait, for the response and for
// each further row, not on the whole statement: whoever reads many rows, slowly, is not cut off.
package limited

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a database on which no wait is longer than the limit.
type DB struct {
	statements
	pool *pgxpool.Pool
}

// New makes a DB of a pool.
func New(pool *pgxpool.Pool, limit time.Duration) DB {
	return DB{statements: statements{on: pool, limit: limit}, pool: pool}
}

// With is the database with another limit.
func (d DB) With(limit time.Duration) DB { return New(d.pool, limit) }

// Exec runs a statement that returns no rows, and that does not wait for locks as long as for Postgres.
func (d DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	return Impatient{d.pool, backgroundWait}.Exec(ctx, sql, args...)
}

// Begin begins a transaction.
func (d DB) Begin(ctx context.Context, options pgx.TxOptions) (*Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	tx, err := d.pool.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Tx{statements: statements{on: tx, limit: d.limit}, tx: tx}, nil
}

// InTx runs do in a transaction, which it commits unless do fails.
func (d DB) InTx(ctx context.Context, options pgx.TxOptions, do func(*Tx) error) error {
	tx, err := d.Begin(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // nothing is left to roll back after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// Tx is a transaction of a DB.
type Tx struct {
	statements
	tx pgx.Tx
}

// With is the transaction with another limit.
func (t *Tx) With(limit time.Duration) *Tx {
	return &Tx{statements: statements{on: t.tx, limit: limit}, tx: t.tx}
}

// Commit commits the transaction.
func (t *Tx) Commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	return t.tx.Commit(ctx)
}

// Rollback rolls the transaction back, also after ctx has ended: others may wait for its locks.
func (t *Tx) Rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.limit)
	defer cancel()
	return t.tx.Rollback(ctx)
}

// statements are those of a pool or of a transaction.
type statements struct {
	on interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
	limit time.Duration
}

// Exec runs a statement that returns no rows.
func (s statements) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	return s.on.Exec(ctx, sql, args...)
}

// QueryRow runs a statement that returns one row, which must be scanned.
func (s statements) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	return row{Row: s.on.QueryRow(ctx, sql, args...), done: cancel}
}

// row ends the wait of its statement once it is scanned.
type row struct {
	pgx.Row
	done context.CancelFunc
}

// Scan implements [pgx.Row].
func (r row) Scan(into ...any) error {
	defer r.done()
	return r.Row.Scan(into...)
}

// Query runs a statement that returns rows, which must be closed.
func (s statements) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w := begin(ctx, s.limit)
	found, err := s.on.Query(w, sql, args...) //nolint:contextcheck // w is a child of ctx
	if err != nil {
		w.end()
		return found, err
	}
	w.pause()
	return rows{Rows: found, wait: w}, nil
}

// rows give each row a limit of its own.
type rows struct {
	pgx.Rows
	wait *wait
}

// Next implements [pgx.Rows].
func (r rows) Next() bool {
	r.wait.resume()
	defer r.wait.pause()
	return r.Rows.Next()
}

// Close implements [pgx.Rows]. It reads the rows that are left.
func (r rows) Close() {
	r.wait.resume()
	defer r.wait.end()
	r.Rows.Close()
}

// wait is the context of a statement. It ends like one whose time is over when the statement has waited for too long.
type wait struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// begin begins to wait.
func begin(ctx context.Context, limit time.Duration) *wait {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	return &wait{Context: ctx, cancel: cancel, timer: timer, limit: limit}
}

func (w *wait) pause()  { w.timer.Stop() }
func (w *wait) resume() { w.timer.Reset(w.limit) }

func (w *wait) end() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// Err implements [context.Context].
func (w *wait) Err() error {
	if errors.Is(context.Cause(w.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return w.Context.Err()
}
