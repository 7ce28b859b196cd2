package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// onTheWayLooked is how many notifications of the outbox are looked at for some users, and onTheWayMost how many of
	// those users are returned.
	onTheWayLooked, onTheWayMost = 5000, 500
	// unplacedLooked is how many rows of pacer.unplaced are looked at, the oldest.
	unplacedLooked = 20
)

// ErrLags says that Redis lacks so many accepted notifications that they are not counted one by one.
var ErrLags = errors.New("many accepted notifications are not in their backlogs on Redis yet")

const (
	// anyOnTheWaySQL reports whether any notification may not be in its backlog yet, and whether the outbox holds more
	// than $2. An acceptance younger than $1 still waits for Redis itself, and its producer for the response.
	anyOnTheWaySQL = `
SELECT (SELECT id FROM pacer.outbox ORDER BY left_at, id LIMIT 1) IS NOT NULL
	OR (SELECT left_at FROM pacer.unplaced WHERE left_at < now() - $1::interval ORDER BY left_at LIMIT 1) IS NOT NULL,
	(SELECT id FROM pacer.outbox ORDER BY left_at, id OFFSET $2 LIMIT 1) IS NOT NULL`
	// onTheWaySQL returns the notifications of some users that wait and may not be in their backlogs yet. OFFSET 0 has
	// each looked up by its id.
	onTheWaySQL = `
WITH ids AS MATERIALIZED (
	(SELECT id FROM pacer.outbox ORDER BY left_at, id LIMIT $2)
	UNION
	SELECT a.id FROM (SELECT ids FROM pacer.unplaced ORDER BY left_at LIMIT $3) u CROSS JOIN unnest(u.ids) AS a(id)
)
SELECT n.* FROM ids CROSS JOIN LATERAL (
	SELECT id, user_id, category, channel, priority, send_at, expires_at, collapse_key, accepted_at, arrival, not_before
	FROM pacer.notifications WHERE id = ids.id AND status IN ('waiting', 'retrying') OFFSET 0
) n
WHERE n.user_id = ANY ($1) LIMIT $4`
)

// OnTheWay returns the accepted notifications of some users that may not be in their backlogs yet, in the order of
// their acceptance, with what decides when they go. The relay has yet to place them: their process died, Redis did not
// respond, or their partition was being rebuilt. It fails with [ErrLags] when there are too many to look at.
func (s *Store) OnTheWay(ctx context.Context, users []string) ([]*notification.Notification, error) {
	var some, many bool
	if err := s.pool.QueryRow(ctx, anyOnTheWaySQL, s.cfg.PlacePatience, onTheWayLooked).Scan(&some, &many); err != nil {
		return nil, describe("look for notifications on their way to Redis", err)
	}
	if many || !some {
		return nil, lagging(many)
	}
	rows, err := s.pool.Query(ctx, onTheWaySQL, users, onTheWayLooked, unplacedLooked, onTheWayMost+1)
	if err != nil {
		return nil, describe("look for notifications on their way to Redis", err)
	}
	found, err := pgx.CollectRows(rows, scanOnTheWay)
	if err != nil {
		return nil, describe("look for notifications on their way to Redis", err)
	}
	slices.SortFunc(found, func(a, b *notification.Notification) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), strings.Compare(a.ID, b.ID))
	})
	return found, lagging(len(found) > onTheWayMost)
}

func lagging(many bool) error {
	if many {
		return ErrLags
	}
	return nil
}

// scanOnTheWay reads a row of onTheWaySQL. A retry is due at its own moment.
func scanOnTheWay(row pgx.CollectableRow) (*notification.Notification, error) {
	n := &notification.Notification{}
	var channel string
	var sendAt, expiresAt *time.Time
	var notBefore *int64
	err := row.Scan(&n.ID, &n.UserID, &n.Category, &channel, &n.Priority, &sendAt, &expiresAt, &n.CollapseKey,
		&n.CreatedAt, &n.Arrival, &notBefore)
	n.Channel, n.SendAt, n.ExpiresAt = notification.Channel(channel), moment(sendAt), moment(expiresAt)
	if at := limiterMoment(notBefore); at.After(n.SendAt) {
		n.SendAt = at
	}
	return n, err
}
