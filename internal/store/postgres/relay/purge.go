package relay

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// purgeInterval is how often old rows are looked for.
	purgeInterval = time.Minute
	// purgeBatch is how many rows one statement removes.
	purgeBatch = 1000
	// purgePassed is after how many rows that stay for their own users the purge goes on at its next time.
	purgePassed = 10 * purgeBatch
)

// purger removes what is old.
type purger struct {
	db        limited.DB
	windows   func(userID string) time.Duration
	retention time.Duration
	at        time.Time // of the last purge
	to        purged
}

// round purges once in each purgeInterval.
func (p *purger) round(ctx context.Context) error {
	if time.Since(p.at) < purgeInterval {
		return nil
	}
	p.at = time.Now()
	_, err := p.purge(ctx)
	return err
}

// purge removes notifications that ended longer ago than the retention and than the longest window of any limit of
// their user, with their attempts, and whatever else is old. It returns how many notifications it removed. A rebuild
// has what a window counts from nowhere else: the attempt, and its notification's channel.
func (p *purger) purge(ctx context.Context) (int64, error) {
	keep := max(p.retention, p.windows(""))
	removed, err := p.purgeEnded(ctx, keep)
	_, adopted := p.db.Exec(ctx, purgeAdoptedSQL, keep, purgeBatch)
	_, history := p.db.Exec(ctx, purgeHistorySQL)
	_, cleared := p.db.Exec(ctx, purgeClearedSQL, time.Now().Add(-keep).UnixMicro())
	_, marks := p.db.Exec(ctx, purgeMarksSQL)
	return removed, errors.Join(err, limited.Describe("purge adopted admissions", adopted),
		limited.Describe("purge the history", history), limited.Describe("purge which windows were cleared", cleared),
		limited.Describe("purge old marks", marks))
}

// purged is how far the purge has got among the notifications that are old enough.
type purged struct {
	at time.Time
	id string
}

const (
	// agedSQL returns what ended longer ago than $1, and how long ago: $2 at most that follow ($3, $4). What has an
	// idempotency key stays for $5.
	agedSQL = `
SELECT id, user_id, accepted_at, now() - ended_at FROM pacer.notifications
WHERE ended_at < now() - $1::interval AND accepted_at < now() - $1::interval AND (accepted_at, id) > ($3, $4)
	AND (idempotency_key IS NULL OR accepted_at < now() - $5::interval)
ORDER BY accepted_at, id LIMIT $2`
	// purgeSQL removes notifications that have ended, with their attempts and deliveries.
	purgeSQL = `
WITH old AS (
	SELECT id FROM pacer.notifications WHERE id = ANY ($1::text[]) AND ended_at IS NOT NULL FOR UPDATE SKIP LOCKED
), attempts AS (
	DELETE FROM pacer.attempts WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
), deliveries AS (
	DELETE FROM pacer.deliveries WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
)
DELETE FROM pacer.notifications WHERE id = ANY (ARRAY (SELECT id FROM old))`
)

// purgeEnded removes notifications that ended longer ago than keep, and than the longest window of their user. Many
// that stay for their own users hold up nothing else: the next call goes on behind those that it has passed.
func (p *purger) purgeEnded(ctx context.Context, keep time.Duration) (removed int64, err error) {
	to := &p.to
	for passed := 0; passed < purgePassed; {
		rows, err := p.db.Query(ctx, agedSQL, keep, purgeBatch, to.at, to.id, intake.KeyLife)
		if err != nil {
			return removed, limited.Describe("purge old notifications", err)
		}
		var old []string
		var user string
		var ago time.Duration
		looked := 0
		if _, err := pgx.ForEachRow(rows, []any{&to.id, &user, &to.at, &ago}, func() error {
			if looked++; ago > p.windows(user) {
				old = append(old, to.id)
			}
			return nil
		}); err != nil {
			return removed, limited.Describe("purge old notifications", err)
		}
		tag, err := p.db.Exec(ctx, purgeSQL, old)
		if err != nil {
			return removed, limited.Describe("purge old notifications", err)
		}
		removed += tag.RowsAffected()
		if looked < purgeBatch {
			*to = purged{} // from the beginning
			break
		}
		passed += looked - len(old)
	}
	return removed, nil
}

const (
	// purgeAdoptedSQL removes old admissions that were adopted without their notifications. Every other attempt is
	// removed with its notification. Limits of a user's own may look back further.
	purgeAdoptedSQL = `
DELETE FROM pacer.attempts WHERE notification_id >= '~' AND notification_id = ANY (ARRAY (
	SELECT notification_id FROM pacer.attempts a WHERE notification_id >= '~' AND ended_at < now() - $1::interval
		AND NOT EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[a.user_id]) AND p.limits <> '{}')
		ORDER BY notification_id LIMIT $2))`
	// purgeHistorySQL removes what is too old to be shown.
	purgeHistorySQL = `DELETE FROM pacer.history WHERE hour < now() - interval '31 days'`
	// purgeClearedSQL removes what no window that is rebuilt looks back to. A user's own limits may look back further.
	purgeClearedSQL = `
DELETE FROM pacer.cleared c WHERE until < $1
	AND NOT EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[c.user_id]) AND p.limits <> '{}')`
	// purgeMarksSQL leaves the marks of the last hour, or more. A partition whose Redis was away for longer is rebuilt.
	purgeMarksSQL = `DELETE FROM pacer.marks WHERE id < (SELECT id FROM pacer.marks ORDER BY id DESC LIMIT 1) - 10000`
)
