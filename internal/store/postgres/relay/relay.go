// Package relay keeps Redis and Postgres in step, in the background.
package relay

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/store/postgres/totals"
)

// Config of a Relay.
type Config struct {
	// Check refuses a notification that a producer wrote into the database, if the policy or its channel does not allow
	// it: nobody else has checked it. Its error becomes the reason of the failure.
	Check func(*notification.Notification) error
	// RefusalPatience is how long all processes must have refused a notification that a producer wrote into the
	// database before it ends as failed: some may have another policy or other channels for a while. Defaults to a
	// minute.
	RefusalPatience time.Duration
	// Windows gives the longest window of any rule for a user: older admissions need not be counted again. Without a
	// user, it is that of whoever has no limits of their own.
	Windows func(userID string) time.Duration
	// Rebuilding is called as a rebuild of partitions begins, and again when it has ended: Redis may lose its data once
	// more. It writes again whatever else the deployment keeps in Redis. Defaults to nothing.
	Rebuilding func(ctx context.Context)
	// Adopted is called with the number of notifications that processes without metrics of their own have accepted,
	// each counted once, so that this process counts them. Defaults to leaving that to other processes.
	Adopted func(category string, n int64)
	// Retention is how long ended notifications are kept, unless a limit counts them for longer. Defaults to 30 days.
	Retention time.Duration
	// Interval between two rounds. Defaults to 500 ms.
	Interval time.Duration
}

// Relay keeps Redis and the database in step. It places accepted notifications that may not have reached Redis,
// writes the ends that the agendas decided, rebuilds partitions that have lost their state, and purges what is old.
// Any number of processes may run one; they share the work or take turns.
type Relay struct {
	cfg    Config
	stores *seam.Stores

	rebuilder *rebuild.Rebuilder
	checker   *outbox.Checker
	emptier   *outbox.Emptier
	ends      *outbox.Ends
	totals    *totals.Keeper
	purger    purger

	looked     chan struct{}
	lookedOnce sync.Once
}

// New makes a Relay.
func New(stores *seam.Stores, cfg Config) *Relay {
	cfg.Interval = cmp.Or(cfg.Interval, 500*time.Millisecond)
	if cfg.Rebuilding == nil {
		cfg.Rebuilding = func(context.Context) {}
	}
	kept := totals.NewKeeper(stores, cfg.Adopted)
	return &Relay{
		cfg: cfg, stores: stores, rebuilder: rebuild.New(stores, kept, cfg.Windows, cfg.Rebuilding),
		checker: outbox.NewChecker(stores, cfg.Check, cfg.RefusalPatience), emptier: outbox.NewEmptier(stores),
		ends: outbox.NewEnds(stores), totals: kept,
		purger: purger{
			db: stores.DB, windows: cfg.Windows, retention: cmp.Or(cfg.Retention, 30*24*time.Hour),
		},
		looked: make(chan struct{}),
	}
}

// Looked is closed once a round has compared every partition with the database, and has rebuilt those that were lost.
func (r *Relay) Looked() <-chan struct{} { return r.looked }

func (r *Relay) hasLooked() { r.lookedOnce.Do(func() { close(r.looked) }) }

// Run makes a round at each interval until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	ticker := beat.NewTicker(r.cfg.Interval)
	defer ticker.Stop()
	away := false
	for {
		err := r.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			r.stores.Log.WarnContext(ctx, "the relay can't reach Postgres or Redis; retrying", "error", err)
		case err == nil && away:
			r.stores.Log.InfoContext(ctx, "the relay reaches Postgres and Redis again")
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			ticker.Next()
		}
	}
}

// Round makes one round. Each step runs whether the others fail or not. When nothing has happened, it asks each store
// once instead of at each step.
func (r *Relay) Round(ctx context.Context) error {
	if r.Calm(ctx) {
		r.hasLooked()
		return r.purger.round(ctx)
	}
	_, well, err := r.rebuildLost(ctx)
	return errors.Join(err, r.checker.Check(ctx), r.emptier.Empty(ctx), r.ends.WriteDecided(ctx, well),
		r.totals.Keep(ctx), r.purger.round(ctx))
}

// Calm reports whether no step of a round would find anything. What goes wrong here is left to the steps, which name
// it.
func (r *Relay) Calm(ctx context.Context) bool {
	in, err := r.stores.Agendas.Glance(ctx)
	if err != nil || in.Ends {
		return false
	}
	for _, c := range in.Counts {
		if !r.totals.Noted(c) {
			return false
		}
	}
	seen, err := r.rebuilder.LookCalm(ctx, in.Builds, r.cfg.Adopted != nil)
	if err != nil || seen.Found {
		return false
	}
	for partition := range in.Builds {
		if seen.Lost(partition, in.Identity) {
			return false
		}
	}
	return true
}

// rebuildLost rebuilds the partitions that have lost their state, and returns those that have it by now.
func (r *Relay) rebuildLost(ctx context.Context) (rebuild.Rebuilt, []int, error) {
	rebuilt, well, err := r.rebuilder.Lost(ctx)
	if err == nil {
		r.hasLooked()
	}
	return rebuilt, well, err
}

// RebuildLost rebuilds the partitions that have lost their state, see [rebuild.Rebuilder.Lost].
func (r *Relay) RebuildLost(ctx context.Context) (rebuild.Rebuilt, error) {
	rebuilt, _, err := r.rebuildLost(ctx)
	return rebuilt, err
}

// Rebuild rebuilds every partition, see [rebuild.Rebuilder.All].
func (r *Relay) Rebuild(ctx context.Context) (rebuild.Rebuilt, error) { return r.rebuilder.All(ctx) }

// Verify compares Redis with the database, see [rebuild.Rebuilder.Verify].
func (r *Relay) Verify(ctx context.Context, found func(rebuild.Difference) error) error {
	return r.rebuilder.Verify(ctx, found)
}

// Purge removes what is old, and returns how many notifications it removed.
func (r *Relay) Purge(ctx context.Context) (int64, error) { return r.purger.purge(ctx) }
