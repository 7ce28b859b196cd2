package intake

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/patience"
)

// storePatience is how long a store may take over one call whose context sets no sooner end. It is as long as the API
// gives a whole batch.
const storePatience = time.Minute

// patient is a store that nobody waits for beyond the end of the context, whatever its driver does: the one of Redis
// waits for a reply of the shared connection without a look at the context. A call that is given up may still happen.
// That is harmless: its caller learns that it is unknown what was accepted, and repeats it with the same ids and keys.
type patient struct{ Store }

// Accept implements [Store].
func (p patient) Accept(ctx context.Context, batch []*notification.Notification) ([]Accepted, error) {
	return patience.Ask(ctx, storePatience, func(ctx context.Context) ([]Accepted, error) {
		return p.Store.Accept(ctx, batch)
	})
}

// Holder implements [Store].
func (p patient) Holder(ctx context.Context, key string) (*notification.Notification, error) {
	return patience.Ask(ctx, storePatience, func(ctx context.Context) (*notification.Notification, error) {
		return p.Store.Holder(ctx, key)
	})
}

// View implements [Store].
func (p patient) View(ctx context.Context, id string) (*notification.View, error) {
	return patience.Ask(ctx, storePatience, func(ctx context.Context) (*notification.View, error) {
		return p.Store.View(ctx, id)
	})
}

// hasDevice asks Config.HasDevice as patiently.
func (in *Intake) hasDevice(ctx context.Context, userID string, channel notification.Channel) (bool, error) {
	return patience.Ask(ctx, storePatience, func(ctx context.Context) (bool, error) {
		return in.cfg.HasDevice(ctx, userID, channel)
	})
}
