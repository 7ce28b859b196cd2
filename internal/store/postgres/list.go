package postgres

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// placesLooked is about how many notifications that wait are looked up on Redis for one page, and placesAtOnce how
	// many at the same time.
	placesLooked = 300
	placesAtOnce = 16
	// scatteredCost is how many rows that were accepted one after the other are read as fast as one that stands alone:
	// those of one user, and those that few others are like, lie each in a page of its own.
	scatteredCost = 4
	// partialNote is what a page says of itself when Redis did not tell of all that wait on it.
	partialNote = "Redis did not respond in time: notifications that wait may be listed as queued, without their slot and reason."
)

// The four ways to find notifications, newest first, each with an index of its own: all; those that have not ended;
// those that ended otherwise than delivered; those of one user. Each looks at rows that cost $11 in all, and at one row
// at least. It returns up to $12 of those that match, and the last one that it looked at. $1 and $2 are the moment and
// the id of the last one that was listed, $3 the earliest moment, $4 the statuses, $5 the category, $6 the channel, $7
// how the reason begins, $8 the host, $9 the text in lower case, $10 how the id begins, $13 the user; "" stands for
// any.
//
// A row costs 1, and 1 more for each 100 bytes in which a text is sought: title and body may have 256 KiB. To read the
// host out of a target takes longer than all else, so that is done only where it may be the one that is sought.
//
// A scan of a subquery keeps its order. The reason of a notification that waits is known on Redis only.
const (
	findSQL     = findHead + `accepted_at DESC, id DESC` + findFrom + findInRange + findLooked
	findOpenSQL = findHead + `accepted_at DESC, id DESC` + findFrom + `ended_at IS NULL AND ` + findInRange + findLooked

	// Each end is read in its order, so that they are merged: nothing is sorted.
	findEndedSQL = findHead + `accepted_at DESC, id DESC ROWS UNBOUNDED PRECEDING) AS spent FROM (
		(` + findEnd + `'failed' AND 'failed' = ANY ($4) AND ` + findInRange + `) UNION ALL
		(` + findEnd + `'expired' AND 'expired' = ANY ($4) AND ` + findInRange + `) UNION ALL
		(` + findEnd + `'cancelled' AND 'cancelled' = ANY ($4) AND ` + findInRange + `) UNION ALL
		(` + findEnd + `'replaced' AND 'replaced' = ANY ($4) AND ` + findInRange + `)
		) ended` + findInOrder + findLooked
	findEnd = `SELECT * FROM pacer.notifications WHERE ended_as = `

	findUserSQL = findHead + `user_id DESC, accepted_at DESC, id DESC` + findFrom + `
		(user_id, accepted_at, id) < ($13, $1, $2) AND (user_id, accepted_at) >= ($13, $3)
		ORDER BY user_id DESC, accepted_at DESC, id DESC LIMIT $11) looked ` + findMatching

	findHead = `
		SELECT id, accepted_at, spent, found FROM (SELECT id, accepted_at, spent, (
			status = ANY ($4) AND ($5 = '' OR category = $5) AND ($6 = '' OR channel = $6)
			AND (ended_at IS NULL OR starts_with(reason, $7))
			AND ($8 = '' OR (position('/' || $8 IN lower(target)) > 0 OR position('@' || $8 IN lower(target)) > 0)
				AND pacer.host_of(target) = $8)
			AND ($9 = '' OR position($9 IN lower(title)) > 0 OR position($9 IN lower(body)) > 0 OR starts_with(id, $10))
		) AS found FROM (SELECT *, ` + findCost + ` AS cost, sum(` + findCost + `) OVER (ORDER BY `
	findCost     = `1 + CASE WHEN $9 = '' THEN 0 ELSE (octet_length(title) + octet_length(body)) / 100 END`
	findFrom     = ` ROWS UNBOUNDED PRECEDING) AS spent FROM pacer.notifications WHERE `
	findInRange  = `(accepted_at, id) < ($1, $2) AND accepted_at >= $3` + findInOrder
	findInOrder  = ` ORDER BY accepted_at DESC, id DESC LIMIT $11`
	findLooked   = `) looked ` + findMatching
	findMatching = `WHERE spent - cost < $11) matched WHERE found OR spent >= $11 LIMIT $12`

	// viewsSQL returns some notifications.
	viewsSQL = "SELECT " + viewColumns + " FROM pacer.notifications n WHERE id = ANY ($1)"
)

// rareEnds are the ends that findEndedSQL finds by their index.
var rareEnds = []notification.Status{
	notification.StatusFailed, notification.StatusExpired, notification.StatusCancelled, notification.StatusReplaced,
}

// List returns a page of notifications, newest first. It returns a [notification.FieldError] for a cursor that no
// listing gave. The statuses scheduled, queued and deferred differ on Redis only: for those it looks at a bounded
// number of notifications that wait.
func (l *lookups) List(ctx context.Context, f notification.Filter) (*notification.Page, error) {
	page := &notification.Page{Next: f.Cursor}
	for looked := 0; ; {
		next := f
		next.Cursor, next.Limit = page.Next, f.Limit-len(page.Items)
		found, err := l.Find(ctx, next)
		if err != nil {
			return nil, err
		}
		views, err := l.views(ctx, found.IDs)
		if err != nil {
			return nil, err
		}
		for i := range views {
			if views[i].Partial {
				page.Partial, page.Note = true, partialNote
			}
			if f.Matches(&views[i].View) {
				page.Items = append(page.Items, views[i].View)
			}
		}
		page.Next = found.Next
		// Go on only where the statement found enough, and it turned out that those wait for something else.
		if looked += len(found.IDs); page.Next == "" || len(found.IDs) < next.Limit || looked >= placesLooked ||
			len(page.Items) >= f.Limit {
			return page, nil
		}
	}
}

// views returns notifications in the order of their ids. One that was purged meanwhile is missing.
func (l *lookups) views(ctx context.Context, ids []string) ([]row, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := l.stores.Pool.Query(ctx, viewsSQL, ids)
	if err != nil {
		return nil, limited.Describe("list notifications", err)
	}
	views, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, limited.Describe("list notifications", err)
	}
	order := make(map[string]int, len(ids))
	for i, id := range ids {
		order[id] = i
	}
	slices.SortFunc(views, func(a, b row) int { return order[a.ID] - order[b.ID] })
	l.place(ctx, pointers(views)...)
	return views, nil
}

// Find returns the ids of a page of notifications that may match, newest first.
func (l *lookups) Find(ctx context.Context, f notification.Filter) (*notification.Found, error) {
	at, id, err := parseCursor(f.Cursor)
	if err != nil {
		return nil, err
	}
	if !f.Until.IsZero() && f.Until.Before(at) {
		at, id = f.Until, ""
	}
	open, rare := len(f.Statuses) > 0, len(f.Statuses) > 0
	for _, status := range f.Statuses {
		open, rare = open && !status.Ended(), rare && slices.Contains(rareEnds, status)
	}
	budget := l.rowsLooked
	if f.UserID != "" || rare {
		budget = max(1, budget/scatteredCost)
	}
	args := []any{
		at, id, f.Since, statusesOf(f.Statuses), f.Category, string(f.Channel), f.Reason, strings.ToLower(f.Host),
		strings.ToLower(f.Text), f.Text, budget, f.Limit,
	}
	var rows pgx.Rows
	switch { // the statement that finds with the fewest rows
	case f.UserID != "":
		rows, err = l.stores.Pool.Query(ctx, findUserSQL, append(args, f.UserID)...)
	case open:
		rows, err = l.stores.Pool.Query(ctx, findOpenSQL, args...)
	case rare:
		rows, err = l.stores.Pool.Query(ctx, findEndedSQL, args...)
	default:
		rows, err = l.stores.Pool.Query(ctx, findSQL, args...)
	}
	if err != nil {
		return nil, limited.Describe("find notifications", err)
	}
	return collectFound(rows, f.Limit, budget)
}

// collectFound reads the rows of a statement that finds up to limit among rows that cost budget.
func collectFound(rows pgx.Rows, limit, budget int) (*notification.Found, error) {
	page := &notification.Found{}
	var last struct {
		id    string
		at    time.Time
		spent int
		found bool
	}
	if _, err := pgx.ForEachRow(rows, []any{&last.id, &last.at, &last.spent, &last.found}, func() error {
		if last.found {
			page.IDs = append(page.IDs, last.id)
		}
		return nil
	}); err != nil {
		return nil, limited.Describe("find notifications", err)
	}
	if len(page.IDs) == limit || last.spent >= budget {
		page.Next = formatCursor(last.at, last.id)
	}
	return page, nil
}

// statusesOf returns the statuses in the database of notifications that have one of the given statuses; those of all
// when none is given.
func statusesOf(statuses []notification.Status) []string {
	if len(statuses) == 0 {
		statuses = notification.Statuses()
	}
	var stored []string
	for _, s := range statuses {
		switch s {
		case notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred:
			stored = append(stored, "waiting", "retrying") // a retry that is due waits in its backlog like the others
		case notification.StatusRetrying, notification.StatusSending, notification.StatusDelivered,
			notification.StatusFailed,
			notification.StatusExpired, notification.StatusCancelled, notification.StatusReplaced:
			stored = append(stored, string(s))
		}
	}
	slices.Sort(stored)
	return slices.Compact(stored)
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
	l.place(ctx, pointers(found)...)
	for i := range found {
		views[i] = found[i].View
	}
	return views, nil
}

func pointers(rows []row) []*row {
	all := make([]*row, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}
