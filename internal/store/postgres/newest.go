package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// newerSQL reports whether a newer notification with the collapse key of one was accepted.
const newerSQL = "SELECT " + columns.SupersededSQL + " FROM pacer.notifications n WHERE n.id = $1"

// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted, whatever
// became of it, unless it has been purged.
func (l *lookups) Superseded(ctx context.Context, n *notification.Notification) (bool, error) {
	var newer bool
	err := l.stores.Pool.QueryRow(ctx, newerSQL, n.ID).Scan(&newer)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // n itself may have been purged meanwhile
		return false, limited.Describe("look for a newer notification with the same collapse key", err)
	}
	return newer, nil
}
