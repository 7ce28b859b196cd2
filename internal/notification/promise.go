package notification

import (
	"fmt"
	"time"
)

// Decision says in a word when a notification goes.
type Decision string

// The decisions.
const (
	DecisionNow       Decision = "now"
	DecisionDeferred  Decision = "deferred"
	DecisionScheduled Decision = "scheduled"
	DecisionDigest    Decision = "digest" // it waits, and goes with others
)

// PromiseRequest asks when a notification goes.
type PromiseRequest struct {
	*Notification
	// Accepted says that it has been accepted, and Repeated that this was before. Else it is asked when it would go if
	// it were accepted now.
	Accepted, Repeated bool
	// MaxWait is how long one that is not accepted may wait, from now or from its send_at; nil for any time.
	MaxWait *time.Duration
}

// Promise says when a notification goes. It is exact as long as nothing more urgent comes, the policy stays, and the
// provider takes what goes before it.
type Promise struct {
	// Decision is empty for one that has ended without being sent.
	Decision Decision
	// DeliverAt is when it goes, or went; zero while only people can tell.
	DeliverAt time.Time
	// Reason is what it waits for, as in [View]; empty for nothing.
	Reason string
	// Place is its place among what waits of its user, where 1 goes next; 0 when it does not wait.
	Place int
	// Estimate says that DeliverAt is only the earliest moment: too many are before it.
	Estimate bool
	// TooLate names the limit that is too early for it, such as "max_wait 30s"; empty when there is none.
	TooLate string
}

// ReasonPaused is the reason of a notification that operators hold back.
const ReasonPaused = "paused_by_operator"

// TooLateError refuses a notification that would go too late.
type TooLateError struct {
	// Limit is what it is too late for, such as "max_wait 30s".
	Limit string
	// DeliverAt is the earliest moment; zero while only people can tell, for the Reason.
	DeliverAt time.Time
	Reason    string
}

// Error says when it could go.
func (e *TooLateError) Error() string {
	if e.DeliverAt.IsZero() {
		return fmt.Sprintf("it can't be known whether it would go within %s (%s); it was not accepted: send it without max_wait, or try again later", e.Limit, e.Reason)
	}
	why := ""
	if e.Reason != "" {
		why = " (" + e.Reason + ")"
	}
	return fmt.Sprintf("the earliest moment is %s%s, too late for %s; it was not accepted",
		e.DeliverAt.UTC().Format(time.RFC3339Nano), why, e.Limit)
}
