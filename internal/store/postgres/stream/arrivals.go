package stream

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// arrivalsSQL returns the notifications that were accepted after a place, in order, without their contents; the zone of
// each user; and whether its delivery failed.
const arrivalsSQL = `
SELECT n.id, n.accepted_at, n.user_id, n.category, n.priority, n.channel, n.send_at, n.expires_at, n.collapse_key,
	n.group_key, coalesce(nullif(p.time_zone, ''), n.zone), n.status = 'failed'
FROM pacer.notifications n LEFT JOIN pacer.preferences p ON p.user_id = ANY (ARRAY[n.user_id])
WHERE (n.accepted_at, n.id) > ($1, $2) ORDER BY n.accepted_at, n.id LIMIT $3`

// Arrival is a notification as it was accepted, without its content.
type Arrival struct {
	notification.Notification

	// Zone is the user's time zone; empty for the policy's. Failed says that its delivery failed.
	Zone   string
	Failed bool
}

// Arrivals calls do with what was accepted since a moment, in order.
func Arrivals(ctx context.Context, db limited.Querier, since time.Time, do func(*Arrival) error) error {
	for at, id := since, ""; ; {
		rows, err := db.Query(ctx, arrivalsSQL, at, id, openPage)
		if err != nil {
			return limited.Describe("read what was accepted", err)
		}
		page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Arrival, err error) {
			var sendAt, expiresAt *time.Time
			err = row.Scan(&a.ID, &a.CreatedAt, &a.UserID, &a.Category, &a.Priority, &a.Channel, &sendAt, &expiresAt,
				&a.CollapseKey, &a.GroupKey, &a.Zone, &a.Failed)
			a.SendAt, a.ExpiresAt = columns.Moment(sendAt), columns.Moment(expiresAt)
			return a, err
		})
		if err != nil {
			return limited.Describe("read what was accepted", err)
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < openPage {
			return nil
		}
		at, id = page[len(page)-1].CreatedAt, page[len(page)-1].ID
	}
}
