package postgres

import (
	"context"
	"errors"
	"log/slog"
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
	// Windows gives the longest window of any rule: older admissions need not be counted again.
	Windows func() time.Duration
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
	noted     map[int]agenda.PartitionCounts // the counts that were noted last, by partition
}

// NewRelay makes a Relay.
func NewRelay(store *Store, cfg RelayConfig) *Relay {
	if cfg.Interval == 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	if cfg.Rebuilding == nil {
		cfg.Rebuilding = func(context.Context) {}
	}
	return &Relay{cfg: cfg, store: store, log: store.cfg.Log, noted: map[int]agenda.PartitionCounts{}}
}

// Run makes a round at each interval until ctx ends.
func (l *Relay) Run(ctx context.Context) {
	ticker := beat.NewTicker(l.cfg.Interval)
	defer ticker.Stop()
	away := false
	for {
		err := l.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			l.log.WarnContext(ctx, "the relay can't reach Postgres or Redis; retrying", "error", err)
		case err == nil && away:
			l.log.InfoContext(ctx, "the relay reaches Postgres and Redis again")
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
func (l *Relay) Round(ctx context.Context) error {
	if l.calm(ctx) {
		return l.purge(ctx)
	}
	_, well, err := l.rebuildLost(ctx)
	return errors.Join(err, l.takeUnplaced(ctx), l.emptyOutbox(ctx), l.writeEnds(ctx, well), l.keepTotals(ctx),
		l.purge(ctx))
}

// calm reports whether no step of a round would find anything. What goes wrong here is left to the steps, which name
// it.
func (l *Relay) calm(ctx context.Context) bool {
	in, err := l.store.agendas.Glance(ctx)
	if err != nil || in.Ends {
		return false
	}
	for partition, c := range in.Counts {
		if before := l.noted[partition]; c.Epoch != before.Epoch || c.Pulls != before.Pulls ||
			c.Deferrals != before.Deferrals {
			return false
		}
	}
	seen, err := l.lookCalm(ctx, in.Builds)
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

const (
	// purgeInterval is how often old rows are looked for.
	purgeInterval = time.Minute
	// purgeBatch is how many rows one statement removes.
	purgeBatch = 1000
)

// purge removes, once in each purgeInterval, what [Store.Purge] removes.
func (l *Relay) purge(ctx context.Context) error {
	if time.Since(l.purgedAt) < purgeInterval {
		return nil
	}
	l.purgedAt = time.Now()
	_, err := l.store.Purge(ctx, l.cfg.Windows())
	return err
}

// purgeSQL removes notifications that ended longer ago than they are kept, with their attempts and deliveries.
const purgeSQL = `
WITH old AS (
	SELECT id FROM pacer.notifications
	WHERE ended_at < now() - $1::interval AND accepted_at < now() - $1::interval
	ORDER BY accepted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
), attempts AS (
	DELETE FROM pacer.attempts WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
), deliveries AS (
	DELETE FROM pacer.deliveries WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
)
DELETE FROM pacer.notifications WHERE id = ANY (ARRAY (SELECT id FROM old))`

// Purge removes notifications that ended longer ago than the retention and than the longest window of any limit, with
// their attempts, and expired idempotency keys. It returns how many notifications it removed. A rebuild has what a
// window counts from nowhere else: the attempt, and its notification's channel.
func (r *Store) Purge(ctx context.Context, longestWindow time.Duration) (int64, error) {
	total, keep := int64(0), max(r.cfg.Retention, longestWindow)
	for {
		tag, err := r.db.Exec(ctx, purgeSQL, keep, purgeBatch)
		if err != nil {
			return total, describe("purge old notifications", err)
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < purgeBatch {
			break
		}
	}
	return total, errors.Join(r.purgeImported(ctx, keep), r.purgeKeys(ctx), r.purgeHistory(ctx),
		r.purgeCleared(ctx, keep), r.purgeMarks(ctx))
}

// purgeKeysSQL removes idempotency keys that have expired, and returns how many it has looked at. One whose
// notification has not ended is kept for another day: so it is looked at once a day, not in each round, however long
// the pause is that keeps many open.
const purgeKeysSQL = `
WITH expired AS MATERIALIZED (
	SELECT key, ` + keyOpenSQL + ` AS open FROM pacer.idempotency_keys k
	WHERE expires_at < now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
), kept AS (
	UPDATE pacer.idempotency_keys SET expires_at = now() + interval '1 day'
	WHERE key = ANY (ARRAY (SELECT key FROM expired WHERE open))
), removed AS (
	DELETE FROM pacer.idempotency_keys WHERE key = ANY (ARRAY (SELECT key FROM expired WHERE NOT open))
)
SELECT count(*) FROM expired`

func (r *Store) purgeKeys(ctx context.Context) error {
	for {
		var looked int
		if err := r.db.QueryRow(ctx, purgeKeysSQL, purgeBatch).Scan(&looked); err != nil {
			return describe("purge idempotency keys", err)
		}
		if looked < purgeBatch {
			return nil
		}
	}
}
