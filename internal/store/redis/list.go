package redis

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

const (
	// keysLooked is about how many notifications a page looks at to find those that a filter selects.
	keysLooked = 5000
	// keysNote is what a listing says of itself.
	keysNote = "Redis keeps ended notifications for %s, and does not list by time; a notification that changes meanwhile may be listed twice."
)

// List returns a page of notifications, in no order of time. It returns a [notification.FieldError] for a cursor that
// no listing gave.
func (s *views) List(ctx context.Context, f notification.Filter) (*notification.Page, error) {
	views := map[string]*notification.View{}
	ids, next, err := s.scan(ctx, &f, func(states []*agenda.State) ([]string, error) {
		some, err := s.listed(ctx, &f, states)
		var selected []string
		for _, view := range some {
			views[view.ID], selected = view, append(selected, view.ID)
		}
		return selected, err
	})
	page := &notification.Page{Next: next, Note: fmt.Sprintf(keysNote, timespan.Text(s.agendas.Retention()))}
	for _, id := range ids {
		page.Items = append(page.Items, *views[id])
	}
	return page, err
}

// Find returns the ids of a page of notifications that may match; with an error, those found before it.
func (s *views) Find(ctx context.Context, f notification.Filter) (*notification.Found, error) {
	ids, next, err := s.scan(ctx, &f, func(states []*agenda.State) (ids []string, err error) {
		states, err = mayMatchOf(&f, states)
		for _, state := range states {
			ids = append(ids, state.ID)
		}
		return ids, err
	})
	return &notification.Found{IDs: ids, Next: next}, err
}

// listed returns those of some notifications that the filter selects, as a listing shows them.
func (s *views) listed(ctx context.Context, f *notification.Filter, states []*agenda.State,
) (views []*notification.View, err error) {
	if states, err = mayMatchOf(f, states); err != nil {
		return nil, err
	}
	if err := outlook.Of(s.agendas).Place(ctx, states...); err != nil {
		return nil, err
	}
	for _, state := range states {
		view, err := viewOf(state)
		if err != nil {
			return nil, err
		}
		if view.Timeline = nil; f.Matches(view) {
			views = append(views, view)
		}
	}
	return views, nil
}

// mayMatchOf are those of which mayMatch says so.
func mayMatchOf(f *notification.Filter, states []*agenda.State) (some []*agenda.State, err error) {
	for _, state := range states {
		view, err := viewOf(state)
		if err != nil {
			return nil, err
		}
		if mayMatch(f, view) {
			some = append(some, state)
		}
	}
	return some, nil
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

// scan returns the ids of a page, and the next page's cursor: of those that selects selects.
//
// Redis promises that a scan tells of all that stays, from one step to the next. A step that comes again may tell of
// others, as keys come and go, so a page ends between two steps, and they get smaller as it fills. Only where the
// smallest selects more than a whole page holds does the next page go on within it, in the order of the ids.
func (s *views) scan(ctx context.Context, f *notification.Filter, selects func([]*agenda.State) ([]string, error),
) (ids []string, cursor string, err error) {
	at, after, err := parseCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	size := outlook.ScanBatch
	if after != "" {
		size = 1
	}
	for looked := 0; ; {
		states, next, done, err := outlook.Of(s.agendas).Scan(ctx, at, size, f.UserID)
		if err != nil {
			return ids, "", err
		}
		room := f.Limit - len(ids)
		found, err := selects(behind(states, after))
		switch {
		case err != nil:
			return nil, "", err
		case len(found) > room && size > 1:
			size = max(1, min(size, room)/2)
			continue
		case len(found) > room && len(ids) > 0:
			return ids, formatCursor(at, ""), nil
		case len(found) > room:
			return found[:room], formatCursor(at, found[room-1]), nil
		}
		ids, at, after = append(ids, found...), next, ""
		if done {
			return ids, "", nil
		}
		// A step that finds few has looked at other keys.
		if looked += max(size/5, len(states)); len(ids) == f.Limit || looked >= keysLooked {
			return ids, formatCursor(at, ""), nil
		}
		if size < outlook.ScanBatch {
			size = max(1, (f.Limit-len(ids))/2)
		}
	}
}

// behind are those of a step of a scan whose ids come after one, in their order.
func behind(states []*agenda.State, after string) []*agenda.State {
	slices.SortFunc(states, func(a, b *agenda.State) int { return strings.Compare(a.ID, b.ID) })
	states = slices.CompactFunc(states, func(a, b *agenda.State) bool { return a.ID == b.ID })
	return slices.DeleteFunc(states, func(s *agenda.State) bool { return s.ID <= after })
}

// formatCursor makes the cursor of a page that begins at a place of the scan, after an id.
func formatCursor(at outlook.ScanPlace, after string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "scan %d %d %s", at.Server, at.Cursor, after))
}

// parseCursor reads what formatCursor made.
func parseCursor(cursor string) (at outlook.ScanPlace, after string, err error) {
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
		return outlook.ScanPlace{}, "", fault
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
