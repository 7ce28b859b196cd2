package outbox

import (
	"context"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// deferredSQL writes events of deferrals, of which Redis alone knows, once for each name. Parameters: partition, name,
// their moments in µs, notifications, users, categories, rules.
const deferredSQL = `
WITH fresh AS (
	UPDATE pacer.partitions SET moved = $2 WHERE partition = $1 AND moved <> $2 RETURNING partition
)
INSERT INTO pacer.happened (at, type, notification_id, user_id, category, status, reason)
SELECT timestamptz 'epoch' + e.at * interval '1 microsecond', 'notification.deferred', e.id, e.user_id, e.category,
	'deferred', e.reason
FROM fresh, unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[]) WITH ORDINALITY
	AS e(at, id, user_id, category, reason, place) ORDER BY place`

// GatherEvents moves the events of deferrals, where somebody wants them, from the partitions to the database.
func GatherEvents(ctx context.Context, stores *seam.Stores) error {
	for partition := range stores.Agendas.Partitions() {
		move := func(name string, some []events.Event) error {
			n := len(some)
			at, ids, users := make([]int64, n), make([]string, n), make([]string, n)
			categories, reasons := make([]string, n), make([]string, n)
			for i, e := range some {
				at[i], ids[i], users[i] = e.At.UnixMicro(), e.NotificationID, e.UserID
				categories[i], reasons[i] = e.Category, e.Reason
			}
			_, err := stores.DB.Exec(ctx, deferredSQL, partition, name, at, ids, users, categories, reasons)
			return limited.Describe("write the events of deferrals", err)
		}
		if err := stores.Agendas.Events.Each(ctx, partition, move); err != nil {
			return err
		}
	}
	return nil
}
