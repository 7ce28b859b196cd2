package notification

import (
	"errors"
	"time"
)

// View is a notification together with what has become of it so far.
type View struct {
	Notification
	Status Status
	// Attempts counts the deliveries tried, Deferrals how often it was sent back to wait for a slot.
	Attempts, Deferrals int
	// Reason says why it waits (the rule) or why it ended.
	Reason string
	// Detail says more than Reason: what the provider replied to the latest attempt or, of one that expired for
	// [ReasonMaxDefer], when its slot would have been.
	Detail string
	// Held is true when it waits for its provider, without an attempt: a budget is used up, a breaker is open, or its
	// channel is paused.
	Held bool
	// DeliverAt is when it is expected to go out, while it waits; zero when it does not wait.
	DeliverAt time.Time
	// Ahead is how many of its user's are delivered before it while it waits for a slot: by priority, then arrival,
	// in its category, and under a user cap in the other categories too, unless their own limits hold those back.
	Ahead int
	// Timeline holds what happened, oldest first.
	Timeline []Event
}

// Event is one entry of a notification's timeline.
type Event struct {
	At time.Time
	// Kind is a status, or "attempt" for a delivery that was tried.
	Kind string
	// Detail says why, until when, or with which response; it is for people to read.
	Detail string
	// Reply is what the provider replied, as far as that may be shown.
	Reply string
}

// Errors that every part of pacer shares.
var (
	// ErrNotFound: no notification with that id is known. It was never accepted, or ended longer ago than the
	// retention.
	ErrNotFound = errors.New("no such notification")
	// ErrNotWaiting: the notification is being delivered or has ended, and can't be cancelled.
	ErrNotWaiting = errors.New("already being delivered or ended")
	// ErrNoDevice: the user has no device with that id.
	ErrNoDevice = errors.New("no such device")
	// ErrTooManyDevices: the user has [MaxDevices] devices.
	ErrTooManyDevices = errors.New("the user has as many devices as there may be")
)
