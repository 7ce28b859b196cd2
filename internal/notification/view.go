package notification

import (
	"errors"
	"fmt"
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
	// [ReasonMaxDefer], when its slot would have been, or until when [ReasonQuietHours] last.
	Detail string
	// Held is true when it waits for its provider, without an attempt: a budget is used up, a breaker is open, or its
	// channel is paused.
	Held bool
	// DeliverAt is when it is expected to go out, while it waits; zero when it does not wait.
	DeliverAt time.Time
	// Doomed says that it will not go out: it will end for the Reason, as Detail says. Estimate says that DeliverAt is
	// only the earliest moment: too many are before it.
	Doomed, Estimate bool
	// Ahead is how many of its user's are delivered before it while it waits for a slot: by priority, then arrival,
	// in its category, and under a user cap in the other categories too, unless their own limits hold those back.
	Ahead int
	// DigestID is the carrier of the digest that it is in, or went with; empty for none.
	DigestID string
	// Basis is that by which DeliverAt was found while it waits, and that of its latest admission otherwise.
	Basis Basis
	// Partial is true when the store did not tell all of this in time: what waits looks queued, and is maybe not.
	Partial bool
	// Timeline holds what happened, oldest first.
	Timeline []Event
}

// Event is one entry of a notification's timeline.
type Event struct {
	At time.Time
	// Kind is a status, or one of the constants below.
	Kind string
	// Detail says why, until when, or with which response; it is for people to read.
	Detail string
	// Reply is what the provider replied, as far as that may be shown.
	Reply string
	// Attempt tells of a delivery that was tried; nil of everything else.
	Attempt *Attempt
}

// The kinds of an [Event] that are no statuses: a delivery that was tried; and while it waited, a [Change] of what it
// says of itself, and its release.
const (
	KindAttempt  = "attempt"
	KindChanged  = "changed"
	KindReleased = "released"
)

// Attempt is a delivery that was tried.
type Attempt struct {
	// Number counts from 1.
	Number int
	// Outcome is the status that it led to, or "crashed"; "" while it is under way. Reason is the class and code of the
	// provider's response, such as transient: 503.
	Outcome, Reason string
	// Took is how long it took; 0 when nobody knows.
	Took time.Duration
	// Basis is that by which it was admitted.
	Basis Basis
}

// String says how it ended, for people.
func (a *Attempt) String() string {
	text := fmt.Sprintf("attempt %d", a.Number)
	switch {
	case a.Outcome == "":
		return text + ": under way"
	case a.Reason == "" || a.Reason == a.Outcome:
		text += ": " + a.Outcome
	default:
		text += ": " + a.Outcome + ", " + a.Reason
	}
	if a.Took > 0 {
		text += ", after " + briefly(a.Took)
	}
	return text
}

// briefly writes a duration with three digits.
func briefly(d time.Duration) string {
	unit := time.Microsecond
	for ; d/1000 >= unit; unit *= 10 { // 1000*unit may be too long for a duration
	}
	return d.Round(unit).String()
}

// Event tells of the attempt, which began at a moment.
func (a *Attempt) Event(at time.Time, reply string) Event {
	return Event{At: at, Kind: KindAttempt, Detail: a.String(), Reply: reply, Attempt: a}
}

// NotWaitingError says why a notification can't be cancelled or changed. It is an [ErrNotWaiting].
type NotWaitingError struct {
	ID     string
	Status Status
}

// Error is one sentence.
func (e *NotWaitingError) Error() string {
	status := string(e.Status)
	if e.Status == StatusSending {
		status = "being sent"
	}
	return e.ID + " is " + status + ": only a notification that waits can be cancelled or changed"
}

// Unwrap makes it an [ErrNotWaiting].
func (*NotWaitingError) Unwrap() error { return ErrNotWaiting }

// Errors that every part of pacer shares.
var (
	// ErrNotFound: no notification with that id is known. It was never accepted, or ended longer ago than the
	// retention.
	ErrNotFound = errors.New("no such notification")
	// ErrNotWaiting: the notification is being delivered or has ended, and can't be cancelled or changed.
	ErrNotWaiting = errors.New("already being delivered or ended")
	// ErrNoDevice: the user has no device with that id.
	ErrNoDevice = errors.New("no such device")
	// ErrTooManyDevices: the user has [MaxDevices] devices.
	ErrTooManyDevices = errors.New("the user already has as many devices as allowed")
)
