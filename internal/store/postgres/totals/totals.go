// Package totals counts what a deployment does, and keeps the counts through a loss of Redis.
package totals

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
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

	// notedSQL returns the noted counts.
	notedSQL = "SELECT partition, epoch, pulls, deferrals, earlier_pulls, earlier_deferrals FROM pacer.partition_counts"
)

// Reader reads the totals and the history.
type Reader struct{ stores *seam.Stores }

// NewReader makes a Reader.
func NewReader(stores *seam.Stores) *Reader { return &Reader{stores} }

// Stats returns the counts of the deployment, with the totals of Postgres. While Postgres is away it returns the totals
// that Redis counted, and marks the counts as partial.
func (r *Reader) Stats(ctx context.Context) (stats.Counts, error) {
	counts, err := outlook.Of(r.stores.Agendas.Agendas).Stats(ctx)
	if err != nil {
		return stats.Counts{}, err
	}
	exact, away, err := r.totals(ctx)
	if err != nil {
		counts.Partial = true
		return counts, nil //nolint:nilerr // the counts that could be read are worth returning
	}
	counts.Totals, counts.Partial = exact, counts.Partial || away
	return counts, nil
}

// totals reads the totals. away is true when a partition could not be read: its counts since they were last noted are
// missing.
func (r *Reader) totals(ctx context.Context) (t stats.Totals, away bool, err error) {
	ctx, cancel := limited.Bounded(ctx, r.stores.StatementTimeout)
	defer cancel()
	if err := r.stores.Pool.QueryRow(ctx, totalsSQL).Scan(&t.Accepted, &t.Delivered, &t.Failed, &t.Expired,
		&t.Cancelled, &t.Replaced, &t.Attempts); err != nil {
		return t, false, limited.Describe("read the totals", err)
	}
	before, err := r.readNoted(ctx)
	if err != nil {
		return t, false, err
	}
	now, unread := outlook.Of(r.stores.Agendas.Agendas).Counts(ctx)
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
	outlook.PartitionCounts
	earlierPulls, earlierDeferrals int64
}

func (r *Reader) readNoted(ctx context.Context) (map[int]noted, error) {
	rows, err := r.stores.Pool.Query(ctx, notedSQL)
	if err != nil {
		return nil, limited.Describe("read what Redis counted before", err)
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
		return nil, limited.Describe("read what Redis counted before", err)
	}
	return before, nil
}
