// Package postgres is the store of the durable set-ups. Postgres is the truth: what was accepted, every claim and what
// became of it. The agendas on Redis decide who goes when, and can be lost whole: they are rebuilt from here.
//
//	accept   one statement for many, then the agendas; what does not get there the relay carries over
//	take     the agendas grant, Postgres claims: only what is claimed is sent
//	settle   Postgres writes, fenced by the claim; then the agendas
//
// A claim is the fence: a generation, counted up by each, and a lease on the database's clock. Whatever Redis forgets
// or brings back, nothing that has ended is claimed again, and nothing is written by a worker whose claim has gone to
// another.
//
// The Relay repairs what was lost on the way: see relay.go and rebuild.go.
//
// No statement's plan depends on statistics, since one made over an empty table is kept while it fills. Two idioms
// leave the planner one way to a row, through the primary key, where a plain one leaves it several that cost the same
// in an empty table:
//
//	n.id = ANY (ARRAY[a.id])            and not n.id = a.id, which could be merged or hashed with all rows
//	status IN ('waiting', …)            and not ended_at IS NULL, which the index of all that is open serves without a place
//
// Likewise (user_id, accepted_at) is compared as a row where only the index of both may serve. A test plans every
// statement of this package over empty, filling and full tables.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Config of a Store.
type Config struct {
	// Lease is how long a claim holds. It must be shorter than that of the agendas, so that a delivery that they give
	// to another worker can be claimed. Defaults to 14 s.
	Lease time.Duration
	// MaxCrashes is how many claims may end without a result before the notification is given up. Defaults to 3.
	MaxCrashes int
	// AcceptTimeout bounds the writing of what is accepted. Defaults to 2.5 s: producers are told within 3 s.
	AcceptTimeout time.Duration
	// StatementTimeout bounds every other statement, and for how long a grant that is not used is tried to be given
	// back. Defaults to 5 s.
	StatementTimeout time.Duration
	// PlacePatience is how long an answer waits for Redis after Postgres has accepted. Defaults to 500 ms.
	PlacePatience time.Duration
	// ClaimPatience is how long a claim is tried before its grant is given back. Defaults to 5 s.
	ClaimPatience time.Duration
	// Apart is for a process without metrics of its own, such as a producer: what it accepts is counted in another's.
	Apart bool
	// Retention is how long ended notifications are kept. Defaults to 30 days.
	Retention time.Duration
	Log       *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 14*time.Second)
	c.MaxCrashes = cmp.Or(c.MaxCrashes, 3)
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, 2500*time.Millisecond)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 5*time.Second)
	c.PlacePatience = cmp.Or(c.PlacePatience, 500*time.Millisecond)
	c.ClaimPatience = cmp.Or(c.ClaimPatience, 5*time.Second)
	c.Retention = cmp.Or(c.Retention, 30*24*time.Hour)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Store keeps notifications in Postgres. It implements the stores of packages dispatch and intake. Its methods may be
// called from any goroutine; concurrent calls share statements.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	agendas *agenda.Agendas
	// counted is what insertSQL is told of this process's metrics.
	counted string

	inserts     *batch.Batcher[*notification.Notification, insertResult]
	claims      *batch.Batcher[*dispatch.Grant, claimResult]
	settlements *batch.Batcher[settleRequest, settleResult]
	placer      *placer
}

// New makes a Store over the database and the agendas of a deployment, which must be guarded. Close it after use.
func New(pool *pgxpool.Pool, agendas *agenda.Agendas, cfg Config) *Store {
	r := &Store{cfg: cfg.withDefaults(), pool: pool, agendas: agendas, counted: "yes"}
	if cfg.Apart {
		r.counted = "no"
	}
	r.placer = newPlacer(r)
	r.inserts = batch.New(500, r.insert)
	r.claims = batch.New(250, r.claimAll)
	r.settlements = batch.New(250, r.settleAll)
	return r
}

// Close waits for the calls under way; later ones fail.
func (r *Store) Close() error {
	r.inserts.Close()
	r.placer.close()
	r.claims.Close()
	r.settlements.Close()
	return nil
}

// bounded gives a context for a statement that a caller's own end does not interrupt half-way.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// describe says what was being done when the database failed.
func describe(what string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: Postgres does not answer: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
