// Package postgres is the store of the durable set-ups. Postgres holds the truth: every accepted notification, every
// claim, every result. The agendas on Redis decide which notification goes when. All of Redis may be lost; the relay
// rebuilds it from here.
//
//	accept   one statement inserts or copies many, then the agendas take them; the relay places what was left
//	take     the agendas grant, Postgres claims: only what is claimed is sent
//	settle   Postgres writes the result under the claim, then the agendas do
//
// A claim is the fence: a generation that rises with each claim, and a lease on the database's clock. Whatever Redis
// forgets or brings back, a notification that has ended is never claimed again, and a worker whose claim has passed to
// another writes nothing.
//
// Packages outbox, relay and rebuild keep Redis in step, and repair what was lost on the way.
//
// No statement's plan may depend on statistics, because a plan that was made for an empty table is kept while the
// table fills. Two idioms leave the planner one way to a row, through the primary key. Their plain forms leave it
// several ways that cost the same in an empty table:
//
//	n.id = ANY (ARRAY[a.id])   instead of n.id = a.id, which could become a merge or a hash of all rows
//	status IN ('waiting', …)   instead of ended_at IS NULL, which the index of all open notifications could serve
//
// Likewise (user_id, accepted_at) is compared as a row where only the index of both columns may serve. A test plans
// every statement of this package and those below over empty, filling and full tables.
package postgres

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
	"github.com/pacer-notify/pacer/internal/store/postgres/totals"
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
	// PlaceRoom bounds how many notifications a process has on their way to Redis. The relay places those that exceed
	// it. Defaults to 20,000.
	PlaceRoom int64
	// ClaimPatience is how long a claim is tried anew when it fails, before its grant is returned. Defaults to 5 s.
	ClaimPatience time.Duration
	// LostPatience is how long a result that Postgres has waits for a partition that has lost its state: once that is
	// rebuilt, Redis learns of the result too. Defaults to 30 s.
	LostPatience time.Duration
	// Apart is true for a process without metrics of its own, such as a producer. Another process counts what it
	// accepts.
	Apart bool
	// MayRefuse reports whether the overflow ladder of a category refuses what is too much. Defaults to never.
	MayRefuse func(category string) bool
	// RowsLooked is how many rows a statement looks at to find those that a filter selects; fewer where rows are dear,
	// such as long texts that are searched. Defaults to 5,000.
	RowsLooked int
	Log        *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, 14*time.Second)
	c.MaxCrashes = cmp.Or(c.MaxCrashes, 3)
	c.AcceptTimeout = cmp.Or(c.AcceptTimeout, 2500*time.Millisecond)
	c.CopyLeast = cmp.Or(c.CopyLeast, 100)
	if c.MadeHere == nil {
		c.MadeHere = intake.MadeHere
	}
	if c.MayRefuse == nil {
		c.MayRefuse = func(string) bool { return false }
	}
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 5*time.Second)
	c.PlacePatience = cmp.Or(c.PlacePatience, 500*time.Millisecond)
	c.PlaceRoom = cmp.Or(c.PlaceRoom, 20_000)
	c.ClaimPatience = cmp.Or(c.ClaimPatience, 5*time.Second)
	c.LostPatience = cmp.Or(c.LostPatience, 30*time.Second)
	c.RowsLooked = cmp.Or(c.RowsLooked, 5_000)
	c.Log = cmp.Or(c.Log, slog.Default())
	return c
}

// Store keeps notifications in Postgres. It implements the stores of packages dispatch and intake. Its methods may be
// called from any goroutine; concurrent calls share statements. Each of its parts knows the two stores, and none of the
// other parts.
type Store struct {
	// Stores are for the relay, and whatever else works on both.
	Stores *seam.Stores
	ends   *outbox.Ends
	// changes tells Redis of changed notifications.
	changes *outbox.Changes

	*accepting
	*deliveries
	*lookups
	*preferencesTable
	*devicesTable
	*totals.Reader
	*stream.Source
}

// New makes a Store over the database and the agendas of a deployment. The agendas must be set up for a store outside
// of Redis, see [agenda.Config]. Close the Store after use.
func New(pool *pgxpool.Pool, agendas *agenda.Agendas, cfg Config) *Store {
	cfg = cfg.withDefaults()
	stores := &seam.Stores{
		Pool: pool, DB: limited.New(pool, cfg.StatementTimeout), Changes: limited.NewPatient(pool),
		Agendas:          maintenance.Of(agendas),
		StatementTimeout: cfg.StatementTimeout, PlacePatience: cfg.PlacePatience, Log: cfg.Log,
	}
	ends := outbox.NewEnds(stores)
	accepting := newAccepting(stores, ends, cfg)
	return &Store{
		Stores: stores, ends: ends, changes: outbox.NewChanges(outbox.NewEmptier(stores)), accepting: accepting,
		deliveries:       newDeliveries(stores, ends, cfg),
		lookups:          &lookups{stores: stores, rowsLooked: cfg.RowsLooked, stalled: accepting.placer.Stalled},
		preferencesTable: &preferencesTable{stores, ends}, devicesTable: &devicesTable{stores},
		Reader: totals.NewReader(stores), Source: stream.NewSource(stores),
	}
}

// Cancel ends a notification that still waits. Else it returns [notification.ErrNotFound] or
// [notification.ErrNotWaiting].
func (s *Store) Cancel(ctx context.Context, id string) error {
	return s.CancelBecause(ctx, id, notification.ReasonCancelled)
}

// CancelBecause is Cancel with a reason.
func (s *Store) CancelBecause(ctx context.Context, id, reason string) error {
	return s.ends.End(ctx, id, notification.StatusCancelled, reason)
}

// Close waits for the calls under way; later ones fail.
func (s *Store) Close() error {
	s.accepting.close()
	s.asking.Wait()
	s.ends.Close()
	s.deliveries.close()
	return nil
}
