// Package postgres is the store of the durable set-ups. Postgres holds the truth: every accepted notification, every
// claim, every result. The agendas on Redis decide which notification goes when. All of Redis may be lost; the relay
// rebuilds it from here.
//
//	accept   one statement inserts or copies many, then the agendas take them; the relay carries over what was left
//	take     the agendas grant, Postgres claims: only what is claimed is sent
//	settle   Postgres writes the result under the claim, then the agendas do
//
// A claim is the fence: a generation that rises with each claim, and a lease on the database's clock. Whatever Redis
// forgets or brings back, a notification that has ended is never claimed again, and a worker whose claim has passed to
// another writes nothing.
//
// The Relay repairs what was lost on the way: see relay.go and rebuild.go.
//
// No statement's plan may depend on statistics, because a plan that was made for an empty table is kept while the
// table fills. Two idioms leave the planner one way to a row, through the primary key. Their plain forms leave it
// several ways that cost the same in an empty table:
//
//	n.id = ANY (ARRAY[a.id])   instead of n.id = a.id, which could become a merge or a hash of all rows
//	status IN ('waiting', …)   instead of ended_at IS NULL, which the index of all open notifications could serve
//
// Likewise (user_id, accepted_at) is compared as a row where only the index of both columns may serve. A test plans
// every statement of this package over empty, filling and full tables.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// Config of a Store.
type Config struct {
	// Lease is how long a claim holds. It must be shorter than the lease of the agendas: when they grant a notification
	// to another worker, that worker must be able to claim it. Defaults to 14 s.
	Lease time.Duration
	// MaxCrashes is how many claims may end without a result before the notification is given up. Defaults to 3.
	MaxCrashes int
	// AcceptTimeout bounds the statements that accept. Defaults to 2.5 s, so that a producer has a response within 3 s.
	AcceptTimeout time.Duration
	// CopyLeast is from how many notifications on a batch with ids that pacer made is copied instead of inserted.
	// Defaults to 100.
	CopyLeast int
	// MadeHere reports whether an id has the form of those that pacer makes. Defaults to [intake.MadeHere].
	MadeHere func(id string) bool
	// StatementTimeout bounds every other statement, and the attempts to return a grant that is not used. Defaults to
	// 5 s.
	StatementTimeout time.Duration
	// PlacePatience is how long a response waits for Redis after Postgres has accepted. Defaults to 500 ms.
	PlacePatience time.Duration
	// ClaimPatience is how long a claim is tried anew when it fails, before its grant is returned. Defaults to 5 s.
	ClaimPatience time.Duration
	// LostPatience is how long a result that Postgres has waits for a partition that has lost its state: once that is
	// rebuilt, Redis learns of the result too. Defaults to 30 s.
	LostPatience time.Duration
	// RefusalPatience is how long all processes must have refused a notification that a producer wrote into the
	// database before it ends as failed: some may have another policy or other channels for a while. Defaults to a
	// minute.
	RefusalPatience time.Duration
	// Apart is true for a process without metrics of its own, such as a producer. Another process counts what it
	// accepts.
	Apart bool
	// RowsLooked is how many rows a statement looks at to find those that a filter selects; fewer where rows are dear,
	// such as long texts that are searched. Defaults to 5,000.
	RowsLooked int
	// Retention is how long ended notifications are kept, unless a limit counts them for longer. Defaults to 30 days.
	Retention time.Duration
	Log       *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 14*time.Second)
	c.MaxCrashes = cmp.Or(c.MaxCrashes, 3)
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, 2500*time.Millisecond)
	c.CopyLeast = cmp.Or(c.CopyLeast, 100)
	if c.MadeHere == nil {
		c.MadeHere = intake.MadeHere
	}
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 5*time.Second)
	c.PlacePatience = cmp.Or(c.PlacePatience, 500*time.Millisecond)
	c.ClaimPatience = cmp.Or(c.ClaimPatience, 5*time.Second)
	c.LostPatience = cmp.Or(c.LostPatience, 30*time.Second)
	c.RefusalPatience = cmp.Or(c.RefusalPatience, time.Minute)
	c.RowsLooked = cmp.Or(c.RowsLooked, 5_000)
	c.Retention = cmp.Or(c.Retention, 30*24*time.Hour)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Store keeps notifications in Postgres. It implements the stores of packages dispatch and intake. Its methods may be
// called from any goroutine; concurrent calls share statements.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	db      limited.DB // the pool, for what nobody waits for: each wait is bounded by Config.StatementTimeout
	agendas *agenda.Agendas
	// accepting bounds how many of the connections producers use, so that deliveries find one. lockedAccepts are those
	// of them that wait for a lock, changes the other callers of the API that write.
	accepting              *semaphore.Weighted
	lockedAccepts, changes limited.Patient
	locked                 sync.Map // the keys and ids that were found locked a moment ago
	// counted is insertSQL's parameter that says whether this process counts what it accepts.
	counted string

	inserts     joined[*notification.Notification, insertResult]
	claims      joined[*dispatch.Grant, claimResult]
	unclaims    joined[*dispatch.Grant, struct{}]
	settlements joined[settleRequest, settleResult]
	placer      *placer
	readier     *readier
	// removing are the removals of ended notifications from their agendas that are under way.
	removing sync.WaitGroup
}

// New makes a Store over the database and the agendas of a deployment. The agendas must be set up for a store outside
// of Redis, see [agenda.Config]. Close the Store after use.
func New(pool *pgxpool.Pool, agendas *agenda.Agendas, cfg Config) *Store {
	s := &Store{cfg: cfg.withDefaults(), pool: pool, agendas: agendas, counted: "yes"}
	s.db = limited.New(pool, s.cfg.StatementTimeout)
	if cfg.Apart {
		s.counted = "no"
	}
	s.accepting = semaphore.NewWeighted(max(1, int64(pool.Config().MaxConns)/2))
	s.lockedAccepts, s.changes = limited.NewPatient(pool), limited.NewPatient(pool)
	s.placer, s.readier = newPlacer(s), newReadier(pool)
	s.inserts = join(500, s.insertApart)
	id := func(g *dispatch.Grant) string { return g.Notification.ID }
	s.claims = join(250, func(ctx context.Context, all []*dispatch.Grant) []batch.Outcome[claimResult] {
		return besideLocked(ctx, s, all, id, s.claimAll)
	})
	s.unclaims = join(250, func(ctx context.Context, all []*dispatch.Grant) []batch.Outcome[struct{}] {
		return besideLocked(ctx, s, all, id, s.unclaimAll)
	})
	s.settlements = join(250, func(ctx context.Context, all []settleRequest) []batch.Outcome[settleResult] {
		return besideLocked(ctx, s, all, func(q settleRequest) string { return q.Notification.ID }, s.settleAll)
	})
	return s
}

// Close waits for the calls under way; later ones fail.
func (s *Store) Close() error {
	s.inserts.Close()
	s.readier.close()
	s.placer.close()
	s.removing.Wait()
	s.claims.Close()
	s.unclaims.Close()
	s.settlements.Close()
	return nil
}

// bounded gives a context with a time-out for a statement that must not be interrupted when its caller goes away.
func bounded(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// describe adds to an error of the database, if there is one, what was being done.
func describe(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: Postgres does not respond: %w", what, err)
	case limited.LockedOut(err):
		return &notification.LockedError{Doing: what, Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}
