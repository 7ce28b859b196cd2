package intake

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Store is where notifications are kept.
type Store interface {
	// Accept stores notifications, each id once, and returns one result for each, in order.
	Accept(ctx context.Context, batch []*notification.Notification) ([]Accepted, error)
	// Reserve reserves an idempotency key for at least life. A store that can tell whether the notification with the
	// key has ended keeps the key until then.
	Reserve(ctx context.Context, key, fingerprint, id string, life time.Duration) (Reservation, error)
	// Reserved tells who has an idempotency key, and changes nothing. ClaimNew stands for nobody.
	Reserved(ctx context.Context, key, fingerprint string) (Reservation, error)
	// Commit notes that the notification with a reserved key has been accepted.
	Commit(ctx context.Context, key string) error
	// View returns a notification that was accepted.
	View(ctx context.Context, id string) (*notification.View, error)
}

// Accepted is what the store did with a notification.
type Accepted struct {
	// At is when it was accepted; zero when another user has a notification with this id.
	At time.Time
	// Known is true when its id had been accepted before.
	Known bool
	// First is then the notification that was accepted. It is nil when the store no longer has it, or knows no more
	// than that it is another user's.
	First *notification.Notification
	// Err is [ErrUnstorable] when the store can't keep it; the others of its batch are accepted all the same.
	Err error
}

// Claim says who has an idempotency key.
type Claim uint8

// The results of a reservation.
const (
	ClaimNew   Claim = iota + 1 // the caller: accept the notification
	ClaimDone                   // a notification that was accepted before
	ClaimBusy                   // another caller, who is accepting the notification now
	ClaimOther                  // a notification with another body
)

// Reservation is the result of reserving an idempotency key, with the id of the notification that has the key.
type Reservation struct {
	Claim Claim
	ID    string
}
