// Package events keeps what happened to a deployment for other programs to learn of, and sends it to them. An event is
// written by the statement or script that makes it happen, so that there is one if and only if it happened.
package events

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Type says what happened.
type Type = string

// The types of events.
const (
	EndpointDisabled Type = "endpoint.disabled"
	EndpointEnabled  Type = "endpoint.enabled"

	Delivered Type = "notification.delivered"
	Failed    Type = "notification.failed"
	Expired   Type = "notification.expired"
	Cancelled Type = "notification.cancelled"
	Replaced  Type = "notification.replaced"
	// Deferred happens once to a notification, the first time that a limit, quiet hours or a digest to come hold it.
	Deferred Type = "notification.deferred"
	// Digested happens to a notification that was delivered in the message of another one, besides Delivered.
	Digested Type = "notification.digested"
	// Overflow happens when a rung of an overflow ladder does something to a notification.
	Overflow          Type = "overflow"
	DeviceDeactivated Type = "device.deactivated"
)

// Types are all that a deployment may want or not. Those of endpoints are few, and always written.
var Types = []Type{Delivered, Failed, Expired, Cancelled, Replaced, Deferred, Digested, Overflow, DeviceDeactivated}

// DefaultTypes are all but those that many notifications have besides their end.
func DefaultTypes() []Type {
	return slices.DeleteFunc(slices.Clone(Types), func(t Type) bool { return t == Deferred || t == Digested })
}

// StatusOf is the status that a notification has after an event of a type, or as what it is listed.
func StatusOf(of Type) string {
	switch status, is := strings.CutPrefix(of, "notification."); {
	case of == Digested:
		return string(notification.StatusDelivered)
	case is:
		return status
	}
	return ""
}

// Event is something that happened. It never holds content or a target.
type Event struct {
	// ID names it in the whole world, Sequence gives its place among the events of the deployment: one more than the
	// event before it, and never read before that one. After a fail-over of Redis, which may lose the latest events,
	// numbers are left out.
	ID       string    `json:"id"`
	Sequence int64     `json:"sequence"`
	Type     Type      `json:"type"`
	At       time.Time `json:"at"`
	// What it is about: a webhook endpoint, a notification, or a user's device.
	EndpointID     string `json:"endpoint_id,omitempty"`
	NotificationID string `json:"notification_id,omitempty"`
	DeviceID       string `json:"device_id,omitempty"`
	UserID         string `json:"user_id,omitempty"`
	Category       string `json:"category,omitempty"`
	Status         string `json:"status,omitempty"`
	// Reason is why it happened.
	Reason string `json:"reason,omitempty"`
	// Attempt is how many attempts the notification took, PolicyVersion the policy that granted the latest of them.
	Attempt       int    `json:"attempt,omitempty"`
	PolicyVersion string `json:"policy_version,omitempty"`
}

// New makes an event. The store that writes it gives it its sequence number and its moment.
func New(kind Type, endpointID, reason string) Event {
	return Event{ID: uuid.NewString(), Type: kind, EndpointID: endpointID, Reason: reason}
}

const (
	// Kept is how long events are kept.
	Kept = 30 * 24 * time.Hour
	// MaxKept is how many are kept on Redis, the newest.
	MaxKept = 100_000
	// MaxPage is how many are read at once.
	MaxPage = 1000
)

// Store keeps events, and how far each receiver has got.
type Store interface {
	// After returns the events with sequence numbers beyond this one, in order, at most limit.
	After(ctx context.Context, sequence int64, limit int) ([]Event, error)
	// Hold makes holder the one that sends to a receiver for as long as lease says, or prolongs that; false while
	// another is. A receiver that is new gets what happens from then on.
	Hold(ctx context.Context, receiver, holder string, lease time.Duration) (Progress, bool, error)
	// Done notes that a receiver got the events up to a sequence number. It never goes back.
	Done(ctx context.Context, receiver string, sequence int64) error
	// Failed notes that a receiver did not take the events up to this sequence number, and why. It disables one that
	// has taken none for so long.
	Failed(ctx context.Context, receiver string, sequence int64, why string, longest time.Duration) (Progress, error)
	// Enable has a receiver that was disabled be tried again.
	Enable(ctx context.Context, receiver string) error
	// Forget removes some of the events that were kept long enough, and reports whether there may be more of them.
	Forget(ctx context.Context) (more bool, err error)
}

// Progress is how far a receiver has got.
type Progress struct {
	// Done is the sequence number up to which it got all events.
	Done int64
	// FailingSince is when it first did not take the next ones; zero when it has not been tried. Failing is the last of
	// those that it was sent together then, Fault why it did not take them.
	FailingSince time.Time
	Failing      int64
	Fault        string
	// Disabled says that it gets nothing any more.
	Disabled bool
	// Now is the store's time.
	Now time.Time
}
