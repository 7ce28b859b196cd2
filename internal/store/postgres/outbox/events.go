package outbox

import (
	"context"

	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// gatheredSQL writes events of which Redis alone knows, once for each name. Parameters: partition, name, their moments
// in µs, types, notifications, users, categories, statuses, reasons.
const gatheredSQL = `
WITH fresh AS (
	UPDATE pacer.partitions SET moved = $2 WHERE partition = $1 AND moved <> $2 RETURNING partition
)
INSERT INTO pacer.happened (at, type, notification_id, user_id, category, status, reason)
SELECT timestamptz 'epoch' + e.at * interval '1 microsecond', e.type, e.id, e.user_id, e.category,
	nullif(e.status, ''), e.reason
FROM fresh, unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
	WITH ORDINALITY AS e(at, type, id, user_id, category, status, reason, place) ORDER BY place`

// GatherEvents moves the events of which Redis alone knows, where somebody wants them, from the partitions to the
// database.
func GatherEvents(ctx context.Context, stores *seam.Stores) error {
	for partition := range stores.Agendas.Partitions() {
		move := func(name string, some []events.Event) error {
			var at []int64
			var columns [6][]string
			for _, e := range some {
				at = append(at, e.At.UnixMicro())
				for i, text := range [...]string{e.Type, e.NotificationID, e.UserID, e.Category, e.Status, e.Reason} {
					columns[i] = append(columns[i], text)
				}
			}
			_, err := stores.DB.Exec(ctx, gatheredSQL, partition, name, at, columns[0], columns[1], columns[2],
				columns[3], columns[4], columns[5])
			return limited.Describe("write the events of Redis", err)
		}
		if err := stores.Agendas.Events.Each(ctx, partition, move); err != nil {
			return err
		}
	}
	return nil
}
