package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// userKnownSQL returns a user's notifications with these ids.
	userKnownSQL = "SELECT " + viewColumns + " FROM pacer.notifications n WHERE id = ANY ($2) AND user_id = $1"
	// userLatestSQL returns a user's latest notifications.
	userLatestSQL = "SELECT " + viewColumns + ` FROM pacer.notifications n
		WHERE (user_id, accepted_at) <= ($1, 'infinity') AND (user_id, accepted_at) >= ($1, '-infinity')
		ORDER BY user_id DESC, accepted_at DESC, id DESC LIMIT $2`
)

// Known returns those of a user's notifications that have one of the ids, in no order, without timelines.
func (l *lookups) Known(ctx context.Context, userID string, ids []string) ([]notification.View, error) {
	rows, err := l.stores.Pool.Query(ctx, userKnownSQL, userID, ids)
	return l.viewsOf(ctx, rows, err)
}

// Latest returns a user's latest notifications, newest first, without timelines. It knows all of them.
func (l *lookups) Latest(ctx context.Context, userID string, n int, _ []string) ([]notification.View, string, error) {
	rows, err := l.stores.Pool.Query(ctx, userLatestSQL, userID, n)
	views, err := l.viewsOf(ctx, rows, err)
	return views, "", err
}

// viewsOf reads the views of a query's rows.
func (l *lookups) viewsOf(ctx context.Context, rows pgx.Rows, err error) ([]notification.View, error) {
	if err != nil {
		return nil, limited.Describe("look up a user's notifications", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, limited.Describe("look up a user's notifications", err)
	}
	views := make([]notification.View, len(found))
	for i, asked := 0, time.Now(); i < len(found); i++ {
		if time.Since(asked) < l.stores.PlacePatience { // all are of one user, so one Redis: it is waited for once
			l.place(ctx, &found[i])
		} else {
			found[i].Partial = found[i].inAgendas()
		}
		views[i] = found[i].View
	}
	return views, nil
}
