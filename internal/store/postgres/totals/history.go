package totals

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// historySQL returns what happened from one moment to another, by hour and category: what the relay has added up,
// and the tallies that it has not.
const historySQL = `
SELECT hour, category, sum(accepted)::bigint, sum(delivered)::bigint, sum(deferred)::bigint, sum(failed)::bigint,
	sum(expired)::bigint, sum(cancelled)::bigint, sum(replaced)::bigint
FROM (
	SELECT hour, category, accepted, delivered, deferred, failed, expired, cancelled, replaced
	FROM pacer.history WHERE hour >= $1 AND hour <= $2
	UNION ALL
	SELECT hour, category, accepted, delivered, deferred, failed, expired, cancelled, replaced
	FROM pacer.tallies WHERE hour >= $1 AND hour <= $2
) happened
GROUP BY hour, category ORDER BY hour, category`

// History returns what happened in each category and hour, from the hour of since to that of until, by hour and
// category. Postgres keeps it for 31 days. The triggers that count the totals count it too, so the two agree.
func (r *Reader) History(ctx context.Context, since, until time.Time) ([]stats.Hour, error) {
	ctx, cancel := limited.Bounded(ctx, r.stores.StatementTimeout)
	defer cancel()
	rows, err := r.stores.Pool.Query(ctx, historySQL, since.Truncate(time.Hour), until)
	if err != nil {
		return nil, limited.Describe("read the history", err)
	}
	hours, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h stats.Hour, err error) {
		err = row.Scan(&h.Hour, &h.Category,
			&h.Accepted, &h.Delivered, &h.Deferred, &h.Failed, &h.Expired, &h.Cancelled,
			&h.Replaced)
		h.Hour = h.Hour.UTC()
		return h, err
	})
	if err != nil {
		return nil, limited.Describe("read the history", err)
	}
	return hours, nil
}
