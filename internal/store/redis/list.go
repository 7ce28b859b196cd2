package redis

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

const (
	// keysLooked is about how many notifications a page looks at to find those that a filter selects.
	keysLooked = 5000
	// stepLooked is what a step of the scan counts for that finds fewer: it has looked at other keys.
	stepLooked = 50
	// keysNote is what a listing says of itself.
	keysNote = "Redis keeps ended notifications for %s, and does not list by time; a notification that changes meanwhile may be listed twice."
)

// List returns a page of notifications, in no order of time. It returns a [notification.FieldError] for a cursor that
// no listing gave.
func (r *Store) List(ctx context.Context, f notification.Filter) (*notification.Page, error) {
	page := &notification.Page{Note: fmt.Sprintf(keysNote, timespan.Text(r.agendas.Retention()))}
	next, err := r.scan(ctx, &f, func(s *agenda.State) (bool, error) {
		view, err := r.listed(ctx, &f, s)
		if view != nil {
			page.Items = append(page.Items, *view)
		}
		return view != nil, err
	})
	page.Next = next
	return page, err
}

// Find returns the ids of a page of notifications that may match.
func (r *Store) Find(ctx context.Context, f notification.Filter) (*notification.Found, error) {
	page := &notification.Found{}
	next, err := r.scan(ctx, &f, func(s *agenda.State) (bool, error) {
		view, err := viewOf(s)
		if err != nil || !mayMatch(&f, view) {
			return false, err
		}
		page.IDs = append(page.IDs, s.ID)
		return true, nil
	})
	page.Next = next
	return page, err
}

// listed returns a notification as a listing shows it, or nil when the filter does not select it.
func (r *Store) listed(ctx context.Context, f *notification.Filter, s *agenda.State) (*notification.View, error) {
	view, err := viewOf(s)
	if err != nil || !mayMatch(f, view) {
		return nil, err
	}
	if err := r.agendas.Place(ctx, s); err != nil {
		return nil, err
	}
	if view, err = viewOf(s); err != nil || !f.Matches(view) {
		return nil, err
	}
	view.Timeline = nil
	return view, nil
}

// mayMatch reports whether a filter may select a notification of which it is not known yet where it waits, and for
// what.
func mayMatch(f *notification.Filter, view *notification.View) bool {
	loose := *f
	if !view.Status.Ended() {
		loose.Reason = ""
	}
	if view.Status == notification.StatusQueued && slices.Contains(f.Statuses, notification.StatusDeferred) {
		loose.Statuses = nil
	}
	return loose.Matches(view)
}

// scan gives the notifications of a page to take, which reports whether it took one, and returns the next page's
// cursor. The cursor says where a step of the scan began and, when the page is full within a step, after which id to go
// on: the step comes again, in the order of the ids.
func (r *Store) scan(ctx context.Context, f *notification.Filter, take func(*agenda.State) (bool, error),
) (cursor string, err error) {
	at, after, err := parseCursor(f.Cursor)
	if err != nil {
		return "", err
	}
	for looked, taken := 0, 0; ; after = "" {
		states, next, done, err := r.agendas.Scan(ctx, at, f.UserID)
		if err != nil {
			return "", err
		}
		slices.SortFunc(states, func(a, b *agenda.State) int { return strings.Compare(a.ID, b.ID) })
		states = slices.CompactFunc(states, func(a, b *agenda.State) bool { return a.ID == b.ID })
		for i, s := range states {
			if s.ID <= after {
				continue
			}
			ok, err := take(s)
			if err != nil {
				return "", err
			}
			if ok {
				taken++
			}
			if taken == f.Limit && i < len(states)-1 {
				return formatCursor(at, s.ID), nil
			}
		}
		looked += max(stepLooked, len(states))
		if at = next; done {
			return "", nil
		}
		if taken == f.Limit || looked >= keysLooked {
			return formatCursor(at, ""), nil
		}
	}
}

// formatCursor makes the cursor of a page that begins at a place of the scan, after an id.
func formatCursor(at agenda.ScanPlace, after string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "scan %d %d %s", at.Server, at.Cursor, after))
}

// parseCursor reads what formatCursor made.
func parseCursor(cursor string) (at agenda.ScanPlace, after string, err error) {
	if cursor == "" {
		return at, "", nil
	}
	fault := &notification.FieldError{Field: "cursor", Message: "is not one that a listing gave"}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return at, "", fault
	}
	place, after, found := cutLast(string(text))
	if n, err := fmt.Sscanf(place, "scan %d %d", &at.Server, &at.Cursor); n != 2 || err != nil || !found || at.Server < 0 {
		return agenda.ScanPlace{}, "", fault
	}
	return at, after, nil
}

// cutLast cuts a text at its last space.
func cutLast(text string) (before, after string, found bool) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+1:], true
}
