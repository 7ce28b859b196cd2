// Package push is how notifications leave pacer. It says what a sender is, how a sender reports what became of a
// delivery, and which sender belongs to which channel. Each channel has a package of its own below this one.
package push

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Message is one delivery: a notification and the attempt at it.
type Message struct {
	*notification.Notification
	// Attempt is 1 for the first delivery, 2 for the next.
	Attempt int
	// AdmittedAt is the moment that the limiter counted, on its clock.
	AdmittedAt time.Time
	// Deadline is when the call must begin; nil for any time. Whoever waits before the call, for a place or for a
	// store, asks it right before the call, and returns [Late].
	Deadline *Deadline
	// Passive asks the provider to deliver without disturbing: no sound, no light. Channels whose providers know no
	// such thing deliver as always.
	Passive bool
}

// Sender delivers over one channel. It must be safe for concurrent use, must honour ctx and must not retry by itself:
// the dispatcher retries, each time with a new admission.
type Sender interface {
	// Send delivers the message. A nil error means that the provider accepted it. Every other outcome is an [*Error];
	// an error of another type counts as [Ambiguous].
	Send(ctx context.Context, m Message) error
	Checker
}

// Checker checks notifications before they are accepted. It needs no credentials and no network.
type Checker interface {
	// CheckTarget refuses targets that can't be right.
	CheckTarget(to string) error
	// CheckContent refuses contents that the provider would refuse: a wrong override, or a message that gets too long.
	CheckContent(n *notification.Notification) error
}

// Class says what a failed delivery means for the notification.
type Class uint8

const (
	// Permanent: it will never be delivered; don't try again.
	Permanent Class = iota + 1
	// Transient: it reached nobody, and may work later.
	Transient
	// Throttled: the provider asks to slow down. RetryAfter says for how long. It costs no attempt.
	Throttled
	// TargetGone: the target does not exist any more.
	TargetGone
	// Ambiguous: it may have been delivered, or not; nobody knows. It is tried again like a transient one.
	Ambiguous
	// CredentialsRefused: the provider does not accept what the deployment is configured with. It costs no attempt.
	CredentialsRefused
	// AlreadyDelivered: every target that can have it got it from an earlier attempt, so nothing was sent now.
	AlreadyDelivered
)

// String is the class's name in logs and metrics.
func (c Class) String() string {
	switch c {
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	case Throttled:
		return "throttled"
	case TargetGone:
		return "target_gone"
	case Ambiguous:
		return "ambiguous"
	case CredentialsRefused:
		return "credentials_refused"
	case AlreadyDelivered:
		return "already_delivered"
	}
	return "invalid"
}

// Scope says whom a failure concerns.
type Scope uint8

const (
	// ConcernsTarget: this device, address or subscription, or this notification. Whoever responds so is alive.
	ConcernsTarget Scope = iota + 1
	// ConcernsHost: the server that was called. Whatever else is sent to it fails too, or should wait.
	ConcernsHost
	// ConcernsCredential: this target, or all that is sent with the same credential, app or platform. The response does
	// not tell which: what becomes of the others does.
	ConcernsCredential
	// ConcernsEverybody: all that this deployment sends to the provider, such as with a quota of the project.
	ConcernsEverybody
)

// String is the scope in words.
func (s Scope) String() string {
	switch s {
	case ConcernsTarget:
		return "the target"
	case ConcernsHost:
		return "the host"
	case ConcernsCredential:
		return "the target, or the credentials"
	case ConcernsEverybody:
		return "everybody"
	}
	return "unsaid"
}

// Error is why a delivery failed: whether it may be tried again (Class), when (RetryAfter),
// whether it counts against the user (Counts), whether anybody got it (Reached and Partial), and whom it concerns
// (Whom).
type Error struct {
	Class Class
	// Code is the provider's response in one word, for logs and timelines: "503", "timeout", "connection_refused".
	Code string
	// Reply is what the provider replied, as [Reply] makes it; empty when it said nothing.
	Reply string
	// RetryAfter is how long the provider asks to wait; 0 when it did not say.
	RetryAfter time.Duration
	// Concerns is whom it concerns. Where it is not said, [Error.Whom] tells by the class.
	Concerns Scope
	// Partial is true when some of the notification's targets have got it, now or in an earlier attempt.
	Partial bool
	// Reached is true when this attempt reached one of several targets, or may have, although it failed for others.
	Reached bool
	// GoneSince is when the provider found that the target does not exist any more; zero when it did not say.
	GoneSince time.Time
	// Unsent is true when it is sure that nothing was sent to the provider; with several targets, to that of any.
	Unsent bool
	// Err is the cause. It must hold no secret and no content.
	Err error
}

// Counts reports whether the attempt counts against the user: it reached somebody, or may have. Any other returns its
// throttle slot: nothing was sent, or the provider itself refused all of it.
func (e *Error) Counts() bool {
	switch e.Class {
	case Permanent, Transient, Throttled, TargetGone, CredentialsRefused, AlreadyDelivered:
		return e.Reached
	case Ambiguous:
	}
	return e.Reached || !e.Unsent // nobody knows, or nobody knows the class
}

// Whom tells whom the failure concerns. A sender that does not say so can neither hammer a host that is away nor stop a
// channel because of one target.
func (e *Error) Whom() Scope {
	switch {
	case e.Concerns != 0:
		return e.Concerns
	case e.Class == CredentialsRefused:
		return ConcernsCredential
	case e.Class == Permanent || e.Class == TargetGone || e.Class == Throttled || e.Class == AlreadyDelivered:
		return ConcernsTarget
	}
	return ConcernsHost
}

// Final reports whether trying again is useless.
func (e *Error) Final() bool {
	return e.Class == Permanent || e.Class == TargetGone || e.Class == AlreadyDelivered
}

// Error reads "transient (503): …".
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s (%s)", e.Class, e.Code)
	}
	return fmt.Sprintf("%s (%s): %v", e.Class, e.Code, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Classify turns any error of a sender into an [*Error]. An error without a class is ambiguous, since the notification
// may have been delivered.
func Classify(err error) *Error {
	if err == nil {
		return nil
	}
	if classified, ok := errors.AsType[*Error](err); ok {
		if classified == nil {
			// A nil result would count as delivered, which the sender did not say.
			return &Error{Class: Ambiguous, Code: "unknown", Err: errNilError}
		}
		return classified
	}
	code := "unknown"
	if errors.Is(err, context.DeadlineExceeded) {
		code = "timeout"
	}
	return &Error{Class: Ambiguous, Code: code, Err: err}
}

// errNilError is a fault in a sender's code: a nil *Error is no longer nil once it is an error.
var errNilError = errors.New("the sender returned a nil *push.Error; it must return nil itself")

// Panicked is the failure of a delivery whose sender panicked: nobody knows what it did before.
func Panicked(p any) *Error {
	return &Error{Class: Ambiguous, Code: "panic", Err: fmt.Errorf("sender panicked: %v", p)}
}

// Registry holds the senders of the configured channels.
type Registry map[notification.Channel]Sender
