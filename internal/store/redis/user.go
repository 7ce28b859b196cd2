package redis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

const (
	// latestKnown is how many ids [views.Latest] looks up that its caller knows, and as many that it finds itself.
	latestKnown = 200
	// latestPatience is how long it looks: while Redis is slow, a user's page shows what was found until then.
	latestPatience = 2 * time.Second
)

// Known returns those of a user's notifications that have one of the ids, in no order, without timelines.
func (s *views) Known(ctx context.Context, userID string, ids []string) ([]notification.View, error) {
	states, err := outlook.Of(s.agendas).LookupAll(ctx, s.agendas.PartitionOf(userID), ids)
	if err != nil {
		return nil, err
	}
	views := make([]notification.View, 0, len(states))
	for _, state := range states {
		view, err := viewOf(state)
		if err != nil {
			return nil, err
		}
		if view.UserID == userID {
			view.Timeline = nil
			views = append(views, *view)
		}
	}
	return views, nil
}

// Latest returns the latest of a user's notifications that it finds, newest first, without timelines: of those that
// have one of the ids, and of as many others as a page of a list looks at. Redis keeps no list of a user's
// notifications, so the note says what may be missing.
func (s *views) Latest(ctx context.Context, userID string, n int, ids []string) ([]notification.View, string, error) {
	bounded, cancel := context.WithTimeout(ctx, latestPatience)
	defer cancel()
	others, err := s.Find(bounded, notification.Filter{UserID: userID, Limit: latestKnown})
	if err != nil && (bounded.Err() == nil || ctx.Err() != nil) {
		return nil, "", err
	}
	all := err == nil && others.Next == ""
	ids = slices.Concat(ids[:min(len(ids), latestKnown)], others.IDs)
	slices.Sort(ids)
	views, err := s.Known(ctx, userID, slices.Compact(ids))
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(views, func(a, b notification.View) int { return cmp.Compare(b.Arrival, a.Arrival) })
	note := "Redis keeps what ended for " + timespan.Text(s.agendas.Retention()) + " after its end"
	if !all {
		note += ", and no list of a user's notifications: the latest are those that wait, that still count in the limits, " +
			"or that a short look found; there may be others"
	}
	return views[:min(n, len(views))], note + ".", nil
}
