package outbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// onTheWayLooked is how many notifications of the outbox are looked at for some users, and onTheWayMost how many of
// those users are returned.
const onTheWayLooked, onTheWayMost = 5000, 500

// ErrLags says that Redis lacks so many accepted notifications that they are not counted one by one.
var ErrLags = errors.New("many accepted notifications are not in their backlogs on Redis yet")

const (
	// outboxIDs are the ids in the outbox, not many more than $2. What nobody has checked takes no slot yet.
	outboxIDs = `SELECT unnest(ids) AS id FROM (
	SELECT ids FROM pacer.outbox WHERE NOT unchecked ORDER BY due_at LIMIT $2 + 1) rows LIMIT $2 + 1`
	// anyOnTheWaySQL reports whether a relay has to take up anything within $1, and whether the outbox holds more than
	// $2. What was accepted later still waits for Redis itself, and its producer for the response.
	anyOnTheWaySQL = `
SELECT (SELECT due_at FROM pacer.outbox WHERE NOT unchecked AND due_at < now() + $1::interval ORDER BY due_at
	LIMIT 1) IS NOT NULL,
	(SELECT count(*) FROM (` + outboxIDs + `) looked) > $2`
	// onTheWaySQL returns the notifications of some users that wait and may not be in their backlogs yet. OFFSET 0 has
	// each looked up by its id.
	onTheWaySQL = `
WITH ids AS MATERIALIZED (SELECT DISTINCT id FROM (` + outboxIDs + `) looked)
SELECT n.* FROM ids CROSS JOIN LATERAL (
	SELECT ` + namedColumns + `
	FROM pacer.notifications WHERE id = ids.id AND status IN ('waiting', 'retrying') OFFSET 0
) n
WHERE n.user_id = ANY ($1) LIMIT $3`
)

// OnTheWay returns the accepted notifications of some users that may not be in their backlogs yet, in the order of
// their acceptance, with what decides when they go. The relay has yet to place them: their process died, Redis did not
// respond, or their partition was being rebuilt. It fails with [ErrLags] when there are too many to look at.
func OnTheWay(ctx context.Context, stores *seam.Stores, users []string) ([]*notification.Notification, error) {
	var some, many bool
	err := stores.Pool.QueryRow(ctx, anyOnTheWaySQL, PlaceTime-stores.PlacePatience, onTheWayLooked).Scan(&some, &many)
	if err != nil {
		return nil, limited.Describe("look for notifications on their way to Redis", err)
	}
	if many || !some {
		return nil, lagging(many)
	}
	rows, err := stores.Pool.Query(ctx, onTheWaySQL, users, onTheWayLooked, onTheWayMost+1)
	if err != nil {
		return nil, limited.Describe("look for notifications on their way to Redis", err)
	}
	found, err := pgx.CollectRows(rows, scanOnTheWay)
	if err != nil {
		return nil, limited.Describe("look for notifications on their way to Redis", err)
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
	n, err := scanNamed(row)
	if n.notBefore.After(n.SendAt) {
		n.SendAt = n.notBefore
	}
	return &n.Notification, err
}
