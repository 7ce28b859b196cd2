package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/beat"
	"github.com/pacer-notify/pacer/internal/notification"
)

// RelayConfig of a Relay.
type RelayConfig struct {
	// Check refuses a notification that a producer wrote into the database, if the policy or its channel does not allow
	// it: nobody else has checked it. Its error becomes the reason of the failure.
	Check func(*notification.Notification) error
	// Windows gives the longest window of any rule for a user: older admissions need not be counted again. Without a
	// user, it is that of whoever has no limits of their own.
	Windows func(userID string) time.Duration
	// Rebuilding is called as a rebuild of partitions begins, and again when it has ended: Redis may lose its data once
	// more. It writes again whatever else the deployment keeps in Redis. Defaults to nothing.
	Rebuilding func(ctx context.Context)
	// Adopted is called with the number of notifications that processes without metrics of their own have accepted,
	// each counted once, so that this process counts them. Defaults to leaving that to other processes.
	Adopted func(category string, n int64)
	// Interval between two rounds. Defaults to 500 ms.
	Interval time.Duration
}

// Relay keeps Redis and the database in step. It places accepted notifications that may not have reached Redis,
// writes the ends that the agendas decided, rebuilds partitions that have lost their state, and purges what is old.
// Any number of processes may run one; they share the work or take turns.
type Relay struct {
	cfg   RelayConfig
	store *Store
	log   *slog.Logger

	cursor    outboxPlace // where the next round begins in the outbox
	again     outboxPlace // the same among what was refused, during a pass
	refusedAt time.Time   // when the latest pass began
	purgedAt  time.Time
	purged    purged
	noted     map[int]agenda.PartitionCounts // the counts that were noted last, by partition

	looked     chan struct{}
	lookedOnce sync.Once
}

// NewRelay makes a Relay.
func NewRelay(store *Store, cfg RelayConfig) *Relay {
	if cfg.Interval == 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	if cfg.Rebuilding == nil {
		cfg.Rebuilding = func(context.Context) {}
	}
	return &Relay{
		cfg: cfg, store: store, log: store.cfg.Log, noted: map[int]agenda.PartitionCounts{},
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
			r.log.WarnContext(ctx, "the relay can't reach Postgres or Redis; retrying", "error", err)
		case err == nil && away:
			r.log.InfoContext(ctx, "the relay reaches Postgres and Redis again")
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
	if r.calm(ctx) {
		r.hasLooked()
		return r.purge(ctx)
	}
	_, well, err := r.rebuildLost(ctx)
	return errors.Join(err, r.checkOutbox(ctx), r.emptyOutbox(ctx), r.writeEnds(ctx, well), r.keepTotals(ctx),
		r.purge(ctx))
}

// calm reports whether no step of a round would find anything. What goes wrong here is left to the steps, which name
// it.
func (r *Relay) calm(ctx context.Context) bool {
	in, err := r.store.agendas.Glance(ctx)
	if err != nil || in.Ends {
		return false
	}
	for partition, c := range in.Counts {
		if before := r.noted[partition]; c.Epoch != before.Epoch || c.Pulls != before.Pulls ||
			c.Deferrals != before.Deferrals {
			return false
		}
	}
	seen, err := r.lookCalm(ctx, in.Builds)
	if err != nil || seen.found {
		return false
	}
	for partition := range in.Builds {
		if seen.lost(partition, in.Identity) {
			return false
		}
	}
	return true
}
