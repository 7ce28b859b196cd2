package intake

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// KeyLife is for how long an idempotency key stays with its notification at least. It also stays until the notification
// ends.
const KeyLife = 24 * time.Hour

// KeyIsOver reports whether a notification has lost its idempotency key.
func KeyIsOver(acceptedAt time.Time, ended bool) bool {
	return ended && time.Since(acceptedAt) > KeyLife
}

// Store is where notifications are kept, each with the idempotency key and the fingerprint of its request.
type Store interface {
	// Accept stores notifications, each id and each idempotency key once, and returns one result for each, in order. It
	// sets the CreatedAt of those that it accepts, and the Arrival where the agendas may not know them yet.
	// One whose id pacer made may get another: that which an earlier request with its key was given.
	Accept(ctx context.Context, batch []*notification.Notification) ([]Accepted, error)
	// Holder returns the notification that has an idempotency key, or nil.
	Holder(ctx context.Context, key string) (*notification.Notification, error)
	// View returns a notification that was accepted.
	View(ctx context.Context, id string) (*notification.View, error)
}

// Accepted is what the store did with a notification.
type Accepted struct {
	// Known is true when its idempotency key or its id had been accepted before.
	Known bool
	// First is then the notification that was accepted. It is nil when the store knows no more than that it is another
	// user's.
	First *notification.Notification
	// Err is [ErrUnstorable] when the store can't keep it, [ErrKeyReused] when another request is taking its key, a
	// [notification.LockedError] when it can't be kept now, a [notification.OverflowError] when too many wait; the
	// others of its batch are accepted all the same.
	Err error
}
