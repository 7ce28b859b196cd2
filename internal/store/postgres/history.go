package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/stats"
)

const (
	// historySQL returns what happened from one moment to another, by hour and category: what the relay has added up,
	// and the tallies that it has not.
	historySQL = `
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

	// purgeHistorySQL removes what is too old to be shown.
	purgeHistorySQL = `DELETE FROM pacer.history WHERE hour < now() - interval '31 days'`
)

// History returns what happened in each category and hour, from the hour of since to that of until, by hour and
// category. Postgres keeps it for 31 days. The triggers that count the totals count it too, so the two agree.
func (s *Store) History(ctx context.Context, since, until time.Time) ([]stats.Hour, error) {
	ctx, cancel := bounded(ctx, s.cfg.StatementTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, historySQL, since.Truncate(time.Hour), until)
	if err != nil {
		return nil, describe("read the history", err)
	}
	hours, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h stats.Hour, err error) {
		err = row.Scan(&h.Hour, &h.Category,
			&h.Accepted, &h.Delivered, &h.Deferred, &h.Failed, &h.Expired, &h.Cancelled,
			&h.Replaced)
		h.Hour = h.Hour.UTC()
		return h, err
	})
	if err != nil {
		return nil, describe("read the history", err)
	}
	return hours, nil
}

func (s *Store) purgeHistory(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, purgeHistorySQL); err != nil {
		return describe("purge the history", err)
	}
	return nil
}
