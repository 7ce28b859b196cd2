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
	// Reserve reserves idempotency keys, of which none comes twice, and returns one reservation for each, in order. A
	// store that can tell whether the notification with a key has ended keeps the key until then.
	Reserve(ctx context.Context, keys []Key) ([]Reservation, error)
	// Reserved tells who has an idempotency key, and changes nothing. ClaimNew stands for nobody, or with an id for a
	// caller who has given up.
	Reserved(ctx context.Context, key, fingerprint string) (Reservation, error)
	// Commit notes that the notifications with reserved keys have been accepted. A key that is over stays so.
	Commit(ctx context.Context, keys []AcceptedKey) error
	// Originals returns notifications as they were accepted, in order; nil stands for one that it no longer has.
	Originals(ctx context.Context, of []Original) ([]*notification.Notification, error)
	// View returns a notification that was accepted.
	View(ctx context.Context, id string) (*notification.View, error)
}

// Key is an idempotency key that is to be reserved.
type Key struct {
	Key string
	// Fingerprint of the request, and ID for its notification if the key is new.
	Fingerprint, ID string
	// Life is for how long it is reserved at least.
	Life time.Duration
}

// AcceptedKey is an idempotency key whose notification has been accepted.
type AcceptedKey struct {
	Key string
	// At is when it was accepted; zero when that is not known. A store in which keys usually outlive their
	// notifications keeps it.
	At time.Time
}

// Original names a notification that was accepted.
type Original struct{ UserID, ID string }

// Accepted is what the store did with a notification.
type Accepted struct {
	// At is when it was accepted; zero when another user has a notification with this id.
	At time.Time
	// Known is true when its id had been accepted before.
	Known bool
	// First is then the notification that was accepted. It is nil when the store no longer has it, or knows no more
	// than that it is another user's.
	First *notification.Notification
	// Err is [ErrUnstorable] when the store can't keep it, a [notification.LockedError] when it can't now; the others
	// of its batch are accepted all the same.
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
	// At is when a notification that was accepted before was accepted, where the store keeps that with the key.
	At time.Time
}
