package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

const (
	// latestKnown is how many ids [Store.Latest] looks up that its caller knows, latestLooked how many notifications it
	// looks at besides, and latestPatience how long that may take.
	latestKnown, latestLooked = 200, 5000
	latestPatience            = 300 * time.Millisecond
)

// errEnough ends a look.
var errEnough = errors.New("looked at enough")

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

// Latest returns the latest of a user's notifications that it finds, newest first, without timelines: of those that
// have one of the ids, and of a bounded number of others. Redis keeps no list of a user's notifications, so the note
// says what may be missing.
func (r *Store) Latest(ctx context.Context, userID string, n int, ids []string) ([]notification.View, string, error) {
	others, all, err := r.lookFor(ctx, userID)
	if err != nil {
		return nil, "", err
	}
	ids = slices.Concat(ids[:min(len(ids), latestKnown)], others)
	slices.Sort(ids)
	views, err := r.Known(ctx, userID, slices.Compact(ids))
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(views, func(a, b notification.View) int { return b.CreatedAt.Compare(a.CreatedAt) })
	note := "Redis keeps what ended for " + timespan.Text(r.agendas.Retention()) + " after its end"
	if !all {
		note += ", and no list of a user's notifications: the latest are those that wait, that still count in the limits, " +
			"or that a short look found; there may be others"
	}
	return views[:min(n, len(views))], note + ".", nil
}

// lookFor looks for notifications of a user among a bounded number of those of the user's partition. all is true when
// it looked at every one.
func (r *Store) lookFor(ctx context.Context, userID string) (ids []string, all bool, err error) {
	var mu sync.Mutex
	looked := 0
	bounded, cancel := context.WithTimeout(ctx, latestPatience)
	defer cancel()
	err = r.agendas.EachKnown(bounded, userID, func(k agenda.Known) error {
		mu.Lock()
		defer mu.Unlock()
		if looked++; looked > latestLooked || len(ids) >= latestKnown {
			return errEnough
		}
		if k.UserID == userID {
			ids = append(ids, k.ID)
		}
		return nil
	})
	if errors.Is(err, errEnough) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return ids, false, nil
	}
	return ids, err == nil, err
}
