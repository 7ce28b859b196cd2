package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// freshSQL returns every user who was admitted between $1 and $2.
const freshSQL = "SELECT DISTINCT user_id FROM pacer.attempts WHERE admitted_at > $1 AND admitted_at <= $2 AND counted"

// admissionsSQL returns the admissions until $3 of users, each as far back as is told beside the user. An attempt that
// has not ended yet has no row in pacer.attempts, and is not among them.
const admissionsSQL = `
SELECT a.notification_id, a.user_id, a.category, a.admitted_at, coalesce(n.priority, 3), n.expires_at,
	coalesce(n.channel, ''), a.policy_version, a.zone
FROM unnest($1::text[], $2::bigint[]) AS f(user_id, since), LATERAL (
	SELECT * FROM pacer.attempts a WHERE (a.user_id, a.admitted_at) > (f.user_id, f.since)
		AND (a.user_id, a.admitted_at) <= (f.user_id, $3) AND a.counted OFFSET 0
) a LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.notification_id])`

// Admissions implements [invariant.Source].
func (s *Store) Admissions(ctx context.Context, after, until throttle.Micros,
	window func(userID string) time.Duration,
) ([]invariant.Admission, error) {
	rows, err := s.pool.Query(ctx, freshSQL, int64(after), int64(until))
	if err != nil {
		return nil, describe("read who was admitted", err)
	}
	users, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, describe("read who was admitted", err)
	}
	rows, err = s.pool.Query(ctx, admissionsSQL, users, sinceOf(users, after.Time(), window), int64(until))
	if err != nil {
		return nil, describe("read the admissions", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m invariant.Admission, err error) {
		var expires *time.Time
		err = row.Scan(&m.ID, &m.UserID, &m.Category, &m.At, &m.Priority, &expires, &m.Channel,
			&m.Version, &m.Zone)
		m.ExpiresAt = moment(expires)
		return m, err
	})
	if err != nil {
		return nil, describe("read the admissions", err)
	}
	return all, nil
}

const (
	// openPage is how many open notifications are read at a time, openPause the wait in between: reading all of them
	// must not slow others down.
	openPage  = 1000
	openPause = 20 * time.Millisecond
)

// oldestOpenSQL returns a page of the notifications that have not ended, oldest first.
const oldestOpenSQL = `
SELECT id, user_id, category, channel, accepted_at, greatest(accepted_at, send_at), expires_at FROM pacer.notifications
WHERE ended_at IS NULL AND accepted_at < $1 AND (accepted_at, id) > ($2, $3) ORDER BY accepted_at, id LIMIT $4`

// EachOpen implements [invariant.Source].
func (s *Store) EachOpen(ctx context.Context, before time.Time, do func(invariant.Open) error) error {
	at, id := time.Time{}, ""
	for {
		rows, err := s.pool.Query(ctx, oldestOpenSQL, before, at, id, openPage)
		if err != nil {
			return describe("read what has not ended", err)
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o invariant.Open, err error) {
			var expires *time.Time
			err = row.Scan(&o.ID, &o.UserID, &o.Category, &o.Channel, &at, &o.Since, &expires)
			o.ExpiresAt = moment(expires)
			return o, err
		})
		if err != nil {
			return describe("read what has not ended", err)
		}
		for _, o := range page {
			if err := do(o); err != nil {
				return err
			}
		}
		if len(page) < openPage {
			return nil
		}
		id = page[len(page)-1].ID
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openPause):
		}
	}
}
