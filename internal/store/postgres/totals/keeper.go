package totals

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

const (
	// foldSQL replaces up to $1 tallies by their sum, and adds those of an hour to the history. Several may run at
	// once: all lock the rows of the history in one order.
	foldSQL = `
WITH taken AS (
	DELETE FROM pacer.tallies WHERE id = ANY (ARRAY (SELECT id FROM pacer.tallies ORDER BY id LIMIT $1
		FOR UPDATE SKIP LOCKED))
		AND EXISTS (SELECT FROM pacer.tallies ORDER BY id OFFSET 1 LIMIT 1)
	RETURNING *, ` + limited.SetLockWait + `
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
)

// foldBatch is how many rows of tallies one statement adds up.
const foldBatch = 2000

// Keeper notes in Postgres what Redis counts, and keeps few rows of what Postgres does.
type Keeper struct {
	stores  *seam.Stores
	adopted func(category string, n int64)
	noted   map[int]outlook.PartitionCounts // the counts that were noted last, by partition
}

// NewKeeper makes a Keeper. adopted is called with the number of notifications that processes without metrics of their
// own have accepted, each counted once; nil leaves that to other processes.
func NewKeeper(stores *seam.Stores, adopted func(category string, n int64)) *Keeper {
	return &Keeper{stores: stores, adopted: adopted, noted: map[int]outlook.PartitionCounts{}}
}

// Noted reports whether a partition's counts are those that were noted last.
func (k *Keeper) Noted(c outlook.PartitionCounts) bool {
	before := k.noted[c.Partition]
	return c.Epoch == before.Epoch && c.Pulls == before.Pulls && c.Deferrals == before.Deferrals
}

// Keep counts what producers accepted in this process's metrics, notes the counts of Redis, and folds the tallies
// to a few rows and the history.
func (k *Keeper) Keep(ctx context.Context) error {
	return errors.Join(k.adopt(ctx), k.noteCounts(ctx), k.fold(ctx))
}

func (k *Keeper) fold(ctx context.Context) error {
	for {
		var taken int
		if err := k.stores.DB.QueryRow(ctx, foldSQL, foldBatch).Scan(&taken); err != nil {
			return limited.Describe("fold the totals", err)
		}
		if taken < foldBatch {
			return nil
		}
	}
}

// adopt counts in this process's metrics what processes without metrics accepted.
func (k *Keeper) adopt(ctx context.Context) error {
	for k.adopted != nil {
		rows, err := k.stores.DB.Query(ctx, adoptSQL, foldBatch)
		if err != nil {
			return limited.Describe("count what producers accepted", err)
		}
		var category string
		var n, of, taken int64
		if _, err := pgx.ForEachRow(rows, []any{&category, &n, &of}, func() error {
			k.adopted(category, n)
			taken += of
			return nil
		}); err != nil {
			return limited.Describe("count what producers accepted", err)
		}
		if taken < foldBatch {
			return nil
		}
	}
	return nil
}

// noteCounts notes the counts of Redis that have changed.
func (k *Keeper) noteCounts(ctx context.Context) error {
	counts, away := outlook.Of(k.stores.Agendas.Agendas).Counts(ctx)
	return errors.Join(k.Note(ctx, counts), away)
}

// Note notes the counts of partitions that have changed since they were noted here last.
func (k *Keeper) Note(ctx context.Context, counts []outlook.PartitionCounts) error {
	var partitions []int32
	var epochs, pulls, deferrals []int64
	var of []int32
	var categories []string
	var categoryEpochs, categoryDeferrals []int64
	for _, c := range counts {
		if c.Epoch == 0 || k.Noted(c) {
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
	if _, err := k.stores.DB.Exec(ctx, noteSQL, partitions, epochs, pulls, deferrals, of, categories, categoryEpochs,
		categoryDeferrals); err != nil {
		return limited.Describe("note what Redis counts", err)
	}
	for _, c := range counts {
		k.noted[c.Partition] = c
	}
	return nil
}
