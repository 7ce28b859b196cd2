package deployment

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
)

// promisePatience is how long the stores may take to tell when notifications go.
const promisePatience = 3 * time.Second

// Promises reports when notifications go. Of what is paused nobody can tell.
func (d *Deployment) Promises(ctx context.Context, requests []notification.PromiseRequest,
) ([]notification.Promise, error) {
	return patience.Ask(ctx, promisePatience, func(ctx context.Context) ([]notification.Promise, error) {
		earlier, err := d.onTheWay(ctx, requests)
		if err != nil {
			return nil, err
		}
		promises, err := outlook.Of(d.Agendas).Promises(ctx, append(earlier, requests...))
		if err != nil {
			return nil, err
		}
		return promises[len(earlier):], nil
	})
}

// onTheWay returns the notifications of the same users that Postgres has accepted and Redis may not know: they take
// slots, too. Whoever asks Redis afterwards misses none that reaches it meanwhile.
func (d *Deployment) onTheWay(ctx context.Context, requests []notification.PromiseRequest,
) ([]notification.PromiseRequest, error) {
	if d.Postgres == nil {
		return nil, nil
	}
	users, asked := map[string]bool{}, map[string]bool{}
	for _, q := range requests {
		users[q.UserID], asked[q.ID] = true, true
	}
	found, err := outbox.OnTheWay(ctx, d.Postgres.Stores, slices.Collect(maps.Keys(users)))
	if err != nil {
		return nil, err
	}
	var earlier []notification.PromiseRequest
	for _, n := range found {
		if !asked[n.ID] && d.Rules.CheckCategory(n.Category) == nil { // else the relay refuses it
			earlier = append(earlier, notification.PromiseRequest{Notification: n, Accepted: true})
		}
	}
	return earlier, nil
}
