package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/stats"
)

// Each total is kept by the store that decides what it counts. Postgres decides what is accepted, attempted and ended:
// triggers count that in the same transaction, so no crash and no loss of Redis changes these totals. Redis decides
// pulls and deferrals: the relay notes their counts in Postgres, so that they survive a loss of Redis.
const (
	// totalsSQL adds up the totals of Postgres.
	totalsSQL = `
SELECT coalesce(sum(accepted), 0)::bigint, coalesce(sum(delivered), 0)::bigint, coalesce(sum(failed), 0)::bigint,
	coalesce(sum(expired), 0)::bigint, coalesce(sum(cancelled), 0)::bigint, coalesce(sum(replaced), 0)::bigint,
	coalesce(sum(attempts), 0)::bigint FROM pacer.tallies`

	// foldSQL replaces up to $1 tallies by their sum, and adds those of an hour to the history. Several may run at
	// once: all lock the rows of the history in one order.
	foldSQL = `
WITH taken AS (
	DELETE FROM pacer.tallies WHERE id = ANY (ARRAY (SELECT id FROM pacer.tallies ORDER BY id LIMIT $1
		FOR UPDATE SKIP LOCKED))
		AND EXISTS (SELECT FROM pacer.tallies ORDER BY id OFFSET 1 LIMIT 1)
	RETURNING *, ` + setLockWait + `
), folded AS (
	INSERT INTO pacer.tallies (accepted, delivered, failed, expired, cancelled, replaced, attempts)
	SELECT sum(accepted), sum(delivered), sum(failed), sum(expired), sum(cancelled), sum(replaced), sum(attempts)
	FROM taken HAVING count(*) > 0
), kept AS (
	INSERT INTO pacer.history AS h
		(hour, category, accepted, delivered, deferred, failed, expired, cancelled, replaced)
	SELECT hour, category, sum(accepted), sum(delivered), sum(deferred), sum(failed), sum(expired), sum(cancelled),
		sum(replaced)
	FROM taken WHERE hour IS NOT NULL GROUP BY hour, category ORDER BY hour, category
	ON CONFLICT (hour, category) DO UPDATE SET
		accepted = h.accepted + excluded.accepted, delivered = h.delivered + excluded.delivered,
		deferred = h.deferred + excluded.deferred, failed = h.failed + excluded.failed,
		expired = h.expired + excluded.expired, cancelled = h.cancelled + excluded.cancelled,
		replaced = h.replaced + excluded.replaced
)
SELECT count(*) FROM taken`

	// adoptSQL takes the counts of what processes without metrics accepted, and returns them by category.
	adoptSQL = `
WITH taken AS (
	DELETE FROM pacer.accepted_elsewhere
	WHERE id = ANY (ARRAY (SELECT id FROM pacer.accepted_elsewhere ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED))
	RETURNING category, accepted
)
SELECT category, sum(accepted)::bigint, count(*) FROM taken GROUP BY category`

	// noteSQL notes the counts of partitions, as Redis has them in the partitions' present epochs, and the deferrals of
	// their categories. Within an epoch the counts only grow. When a newer epoch begins, those of the one before are
	// added to the earlier counts. Several may run at once: all lock the rows in one order.
	noteSQL = `
WITH categories AS (
	INSERT INTO pacer.category_deferrals AS d (partition, category, epoch, deferrals)
	SELECT * FROM unnest($5::int[], $6::text[], $7::bigint[], $8::bigint[]) AS c(partition, category, epoch, deferrals)
	ON CONFLICT (partition, category) DO UPDATE SET
		earlier = d.earlier + CASE WHEN excluded.epoch > d.epoch THEN d.deferrals ELSE 0 END,
		deferrals = CASE WHEN excluded.epoch > d.epoch THEN excluded.deferrals
			ELSE greatest(d.deferrals, excluded.deferrals) END,
		epoch = excluded.epoch
	WHERE excluded.epoch >= d.epoch
)
INSERT INTO pacer.partition_counts AS p (partition, epoch, pulls, deferrals)
SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[]) AS c(partition, epoch, pulls, deferrals)
ON CONFLICT (partition) DO UPDATE SET
	earlier_pulls = p.earlier_pulls + CASE WHEN excluded.epoch > p.epoch THEN p.pulls ELSE 0 END,
	earlier_deferrals = p.earlier_deferrals + CASE WHEN excluded.epoch > p.epoch THEN p.deferrals ELSE 0 END,
	pulls = CASE WHEN excluded.epoch > p.epoch THEN excluded.pulls ELSE greatest(p.pulls, excluded.pulls) END,
	deferrals = CASE WHEN excluded.epoch > p.epoch THEN excluded.deferrals
		ELSE greatest(p.deferrals, excluded.deferrals) END,
	epoch = excluded.epoch
WHERE excluded.epoch >= p.epoch`

	// notedSQL returns the noted counts.
	notedSQL = "SELECT partition, epoch, pulls, deferrals, earlier_pulls, earlier_deferrals FROM pacer.partition_counts"
)

// foldBatch is how many rows of tallies one statement adds up.
const foldBatch = 2000

// Stats returns the counts of the deployment, with the totals of Postgres. While Postgres is away it returns the totals
// that Redis counted, and marks the counts as partial.
func (s *Store) Stats(ctx context.Context) (stats.Counts, error) {
	counts, err := s.agendas.Stats(ctx)
	if err != nil {
		return stats.Counts{}, err
	}
	exact, away, err := s.totals(ctx)
	if err != nil {
		counts.Partial = true
		return counts, nil //nolint:nilerr // the counts that could be read are worth returning
	}
	counts.Totals, counts.Partial = exact, counts.Partial || away
	return counts, nil
}

// totals reads the totals. away is true when a partition could not be read: its counts since they were last noted are
// missing.
func (s *Store) totals(ctx context.Context) (t stats.Totals, away bool, err error) {
	ctx, cancel := bounded(ctx, s.cfg.StatementTimeout)
	defer cancel()
	if err := s.pool.QueryRow(ctx, totalsSQL).Scan(&t.Accepted, &t.Delivered, &t.Failed, &t.Expired, &t.Cancelled,
		&t.Replaced, &t.Attempts); err != nil {
		return t, false, describe("read the totals", err)
	}
	before, err := s.readNoted(ctx)
	if err != nil {
		return t, false, err
	}
	now, unread := s.agendas.Counts(ctx)
	for _, n := range before {
		t.Pulls, t.Deferrals = t.Pulls+n.earlierPulls+n.Pulls, t.Deferrals+n.earlierDeferrals+n.Deferrals
	}
	for _, c := range now { // what has not been noted yet
		switch n := before[c.Partition]; {
		case c.Epoch > n.Epoch:
			t.Pulls, t.Deferrals = t.Pulls+c.Pulls, t.Deferrals+c.Deferrals
		case c.Epoch == n.Epoch || c.Epoch == 0:
			t.Pulls, t.Deferrals = t.Pulls+max(0, c.Pulls-n.Pulls), t.Deferrals+max(0, c.Deferrals-n.Deferrals)
		}
	}
	return t, unread != nil, nil
}

// noted are the counts of a partition as Postgres has them.
type noted struct {
	agenda.PartitionCounts
	earlierPulls, earlierDeferrals int64
}

func (s *Store) readNoted(ctx context.Context) (map[int]noted, error) {
	rows, err := s.pool.Query(ctx, notedSQL)
	if err != nil {
		return nil, describe("read what Redis counted before", err)
	}
	before := map[int]noted{}
	var n noted
	if _, err := pgx.ForEachRow(rows, []any{
		&n.Partition, &n.Epoch, &n.Pulls, &n.Deferrals, &n.earlierPulls,
		&n.earlierDeferrals,
	}, func() error {
		before[n.Partition] = n
		return nil
	}); err != nil {
		return nil, describe("read what Redis counted before", err)
	}
	return before, nil
}

// keepTotals counts what producers accepted in this process's metrics, notes the counts of Redis, and folds the tallies
// to a few rows and the history.
func (r *Relay) keepTotals(ctx context.Context) error {
	return errors.Join(r.adopt(ctx), r.noteCounts(ctx), r.fold(ctx))
}

func (r *Relay) fold(ctx context.Context) error {
	for {
		var taken int
		if err := r.store.db.QueryRow(ctx, foldSQL, foldBatch).Scan(&taken); err != nil {
			return describe("fold the totals", err)
		}
		if taken < foldBatch {
			return nil
		}
	}
}

// adopt counts in this process's metrics what processes without metrics accepted.
func (r *Relay) adopt(ctx context.Context) error {
	for r.cfg.Adopted != nil {
		rows, err := r.store.db.Query(ctx, adoptSQL, foldBatch)
		if err != nil {
			return describe("count what producers accepted", err)
		}
		var category string
		var n, of, taken int64
		if _, err := pgx.ForEachRow(rows, []any{&category, &n, &of}, func() error {
			r.cfg.Adopted(category, n)
			taken += of
			return nil
		}); err != nil {
			return describe("count what producers accepted", err)
		}
		if taken < foldBatch {
			return nil
		}
	}
	return nil
}

// noteCounts notes the counts of Redis that have changed.
func (r *Relay) noteCounts(ctx context.Context) error {
	counts, away := r.store.agendas.Counts(ctx)
	return errors.Join(r.note(ctx, counts), away)
}

func (r *Relay) note(ctx context.Context, counts []agenda.PartitionCounts) error {
	var partitions []int32
	var epochs, pulls, deferrals []int64
	var of []int32
	var categories []string
	var categoryEpochs, categoryDeferrals []int64
	for _, c := range counts {
		before := r.noted[c.Partition]
		if c.Epoch == 0 || before.Epoch == c.Epoch && before.Pulls == c.Pulls && before.Deferrals == c.Deferrals {
			continue
		}
		for _, category := range slices.Sorted(maps.Keys(c.ByCategory)) {
			of, categories = append(of, int32(c.Partition)), append(categories, category)
			categoryEpochs = append(categoryEpochs, c.Epoch)
			categoryDeferrals = append(categoryDeferrals, c.ByCategory[category])
		}
		partitions, epochs = append(partitions, int32(c.Partition)), append(epochs, c.Epoch)
		pulls, deferrals = append(pulls, c.Pulls), append(deferrals, c.Deferrals)
	}
	if len(partitions) == 0 {
		return nil
	}
	if _, err := r.store.db.Exec(ctx, noteSQL, partitions, epochs, pulls, deferrals, of, categories, categoryEpochs,
		categoryDeferrals); err != nil {
		return describe("note what Redis counts", err)
	}
	for _, c := range counts {
		r.noted[c.Partition] = c
	}
	return nil
}
