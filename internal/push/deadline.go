package push

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// CodeLate is the code of a delivery that is returned unsent because its call would have begun after its [Deadline].
const CodeLate = "late"

// Deadline is when the first call of a delivery must begin. The limiter counted the delivery at one moment, and the
// user's windows move on from there: a call that begins long after it may arrive right beside the next notification. A
// delivery to several devices is one admission, so once its first call has begun, all others may follow.
type Deadline struct {
	at   time.Time
	left atomic.Int64 // ns from the beginning of the first call until the deadline, and 1 more; 0 before it
}

// NewDeadline makes the deadline of one delivery, on this process's clock.
func NewDeadline(at time.Time) *Deadline { return &Deadline{at: at} }

// Begin reports whether a call may begin now. A nil Deadline allows every call.
func (d *Deadline) Begin() bool {
	if d == nil || d.left.Load() > 0 {
		return true
	}
	left := time.Until(d.at)
	if left < 0 {
		return false
	}
	d.left.CompareAndSwap(0, int64(left)+1)
	return true
}

// Begun is when the first call began; false before that, or when no sender asked.
func (d *Deadline) Begun() (time.Time, bool) {
	left := d.left.Load()
	return d.at.Add(1 - time.Duration(left)), left > 0
}

// Left is how long a call may still wait before it begins: at most the given time.
func (d *Deadline) Left(most time.Duration) time.Duration {
	if d == nil || d.left.Load() > 0 {
		return most
	}
	return min(most, time.Until(d.at))
}

// Late is the failure of a delivery whose call would have begun after its deadline. It has reached nobody.
func Late() *Error { return &Error{Class: Throttled, Code: CodeLate, Unsent: true} }

// OutOfTime is the failure of a delivery whose context has ended before its call: its time is over, or the process
// stops. It has reached nobody, and says nothing of the host that was to be called. It is nil while the context holds.
func OutOfTime(ctx context.Context) *Error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	failure := &Error{Class: Transient, Code: "timeout", Concerns: ConcernsTarget, Unsent: true}
	if errors.Is(err, context.Canceled) {
		failure.Code = "cancelled"
	}
	return failure
}
