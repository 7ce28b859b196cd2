package redis

import (
	"context"
	"errors"
	"slices"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// latestLooked is how many notifications [Store.Latest] looks at.
const latestLooked = 200

// Known returns those of a user's notifications that have one of the ids, in no order, without timelines.
func (r *Store) Known(ctx context.Context, userID string, ids []string) ([]notification.View, error) {
	views := make([]notification.View, 0, len(ids))
	partition := r.agendas.PartitionOf(userID)
	for _, id := range ids {
		state, err := r.agendas.LookupIn(ctx, partition, id)
		if errors.Is(err, notification.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
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

// Latest returns the latest of those of a user's notifications that have one of the ids, newest first, without
// timelines. Redis keeps no list of a user's notifications, so there may be others: the note says so.
func (r *Store) Latest(ctx context.Context, userID string, n int, ids []string) ([]notification.View, string, error) {
	views, err := r.Known(ctx, userID, ids[:min(len(ids), latestLooked)])
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(views, func(a, b notification.View) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return views[:min(n, len(views))], "Redis keeps no list of a user's notifications: these wait, or still count in the " +
		"limits. What ended is kept for " + throttle.FormatDuration(r.agendas.Retention()) + " after its end.", nil
}
