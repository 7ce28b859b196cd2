package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
)

// newerSQL reports whether a newer notification with the collapse key of one was accepted.
const newerSQL = "SELECT " + supersededSQL + " FROM pacer.notifications n WHERE n.id = $1"

// Superseded reports whether a newer notification with the user, category and collapse key of n was accepted, whatever
// became of it, unless it has been purged.
func (s *Store) Superseded(ctx context.Context, n *notification.Notification) (bool, error) {
	var newer bool
	err := s.pool.QueryRow(ctx, newerSQL, n.ID).Scan(&newer)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) { // n itself may have been purged meanwhile
		return false, describe("look for a newer notification with the same collapse key", err)
	}
	return newer, nil
}
