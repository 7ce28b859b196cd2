package postgres

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
)

// The two ways to list notifications, newest first, each with an index of its own. $1 and $2 are the moment and the id
// of the last one that was listed, $3 the earliest moment, $4 the category or "" for all, $5 the statuses, $6 how many,
// $7 the user.
const (
	listSQL = `SELECT ` + viewColumns + ` FROM pacer.notifications
		WHERE (accepted_at, id) < ($1, $2) AND accepted_at >= $3 AND ($4 = '' OR category = $4) AND status = ANY ($5)
		ORDER BY accepted_at DESC, id DESC LIMIT $6`
	listUserSQL = `SELECT ` + viewColumns + ` FROM pacer.notifications
		WHERE (user_id, accepted_at, id) < ($7, $1, $2) AND (user_id, accepted_at) >= ($7, $3)
			AND ($4 = '' OR category = $4) AND status = ANY ($5)
		ORDER BY user_id DESC, accepted_at DESC, id DESC LIMIT $6`
)

// statusesOf gives the statuses that a notification of a status may have in the database.
func statusesOf(s notification.Status) []string {
	switch s {
	case "":
		return []string{"waiting", "retrying", "sending", "delivered", "failed", "expired", "cancelled", "replaced"}
	case notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred:
		return []string{"waiting", "retrying"} // a retry that is due waits in its backlog like the others
	case notification.StatusRetrying, notification.StatusSending, notification.StatusDelivered,
		notification.StatusFailed,
		notification.StatusExpired, notification.StatusCancelled, notification.StatusReplaced:
	}
	return []string{string(s)}
}

// List returns a page of notifications, newest first. It returns a [notification.FieldError] for a cursor that no
// listing gave.
func (r *Store) List(ctx context.Context, f notification.Filter) (*notification.Page, error) {
	at, id, err := parseCursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	args := []any{at, id, f.Since, f.Category, statusesOf(f.Status), f.Limit}
	var rows pgx.Rows
	if f.UserID == "" {
		rows, err = r.pool.Query(ctx, listSQL, args...)
	} else {
		rows, err = r.pool.Query(ctx, listUserSQL, append(args, f.UserID)...)
	}
	if err != nil {
		return nil, describe("list notifications", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, describe("list notifications", err)
	}
	page := &notification.Page{}
	for i := range found {
		r.place(ctx, &found[i])
		if f.Status == "" || f.Status == found[i].Status {
			page.Items = append(page.Items, found[i].View)
		}
	}
	if len(found) == f.Limit {
		last := found[len(found)-1]
		page.Next = formatCursor(last.CreatedAt, last.ID)
	}
	return page, nil
}

// farFuture is where a listing begins: no notification is accepted later.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// formatCursor makes the cursor of the page after a notification.
func formatCursor(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + " " + id))
}

// parseCursor reads what formatCursor made. Without a cursor the listing begins with the newest.
func parseCursor(cursor string) (time.Time, string, error) {
	if cursor == "" {
		return farFuture, "", nil
	}
	fault := &notification.FieldError{Field: "cursor", Message: "is not one that a listing gave"}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return time.Time{}, "", fault
	}
	micros, id, found := strings.Cut(string(text), " ")
	at, err := strconv.ParseInt(micros, 10, 64)
	if err != nil || !found {
		return time.Time{}, "", fault
	}
	return time.UnixMicro(at), id, nil
}
