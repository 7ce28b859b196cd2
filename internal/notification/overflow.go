package notification

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/timespan"
)

// ReasonOverflow is that of a notification that a rung of its category's [Ladder] ended.
const ReasonOverflow = "overflow"

// KindOverflow is the kind of an [Event] about a rung of a [Ladder] that did something.
const KindOverflow = "overflow"

// OverflowAction is what a rung of a [Ladder] does, as the policy file says it.
type OverflowAction string

// The actions. Scripts know them by these names.
const (
	// OverflowKeep leaves everything as it is.
	OverflowKeep OverflowAction = "keep"
	// OverflowDigest has what waits go as digests until the backlog is empty.
	OverflowDigest OverflowAction = "digest"
	// OverflowReplace ends all but the newest of those that have no collapse key; those with a key are replaced anyway.
	OverflowReplace OverflowAction = "replace"
	// OverflowDropOldest ends the oldest of the least urgent, OverflowDropNew the one that came.
	OverflowDropOldest OverflowAction = "drop_oldest"
	OverflowDropNew    OverflowAction = "drop_new"
	// OverflowRefuse does not accept the one that comes.
	OverflowRefuse OverflowAction = "refuse"
)

// Grows reports whether it lets the backlog grow, so that the rungs with higher numbers are judged, too.
func (a OverflowAction) Grows() bool { return a == OverflowKeep || a == OverflowDigest }

// Rung is one step of a [Ladder]: a condition, and what is done when it holds.
type Rung struct {
	// Waiting holds when more than so many wait in the category of the user; 0 when the condition is Wait, which holds
	// when a slot is further away than that.
	Waiting int
	Wait    time.Duration
	Then    OverflowAction
}

// String is the rung as the policy file has it: waiting 5: drop_oldest.
func (r Rung) String() string { return r.Condition() + ": " + string(r.Then) }

// Condition is when the rung holds: waiting 5, or wait 1h.
func (r Rung) Condition() string {
	if r.Waiting > 0 {
		return "waiting " + strconv.Itoa(r.Waiting)
	}
	return "wait " + timespan.Text(r.Wait)
}

// MayPass reports whether the rung may find nothing to do, so that the next one decides.
func (r Rung) MayPass() bool { return r.Then == OverflowReplace }

// Ladder is what a category does with more than its limits let go: the first rung decides whose condition holds; behind
// one that lets the backlog grow, see [OverflowAction.Grows], those are judged, too, that have a higher number. Where
// something waits, Waiting is judged when a notification joins its backlog, Wait when a worker looks at the backlog.
// A category without a ladder keeps everything.
type Ladder []Rung

// Holding are the rungs that hold, one after the other, for one that comes where so many wait.
func (l Ladder) Holding(waiting int) iter.Seq[Rung] {
	return func(yield func(Rung) bool) {
		grows := 0
		for _, r := range l {
			if r.Waiting <= grows || waiting < r.Waiting {
				continue
			}
			if r.Then.Grows() {
				grows = r.Waiting
			}
			if !yield(r) {
				return
			}
		}
	}
}

// Growing are the rungs that let the backlog grow: those for what is put back, and was judged when it came.
func (l Ladder) Growing() Ladder {
	return slices.DeleteFunc(slices.Clone(l), func(r Rung) bool { return !r.Then.Grows() })
}

// Refuses returns the rung that refuses a notification where so many wait before it; false when none does.
func (l Ladder) Refuses(n *Notification, waiting int) (Rung, bool) {
	for r := range l.Holding(waiting) {
		if !r.Then.Grows() && (r.Then != OverflowReplace || n.CollapseKey == "") {
			return r, r.Then == OverflowRefuse
		}
	}
	return Rung{}, false
}

// Refusing is the last rung that refuses: the one with the lowest number.
func (l Ladder) Refusing() (last Rung) {
	for _, r := range l {
		if r.Then == OverflowRefuse {
			last = r
		}
	}
	return last
}

// EndEvents are the entries of a timeline about an end.
func EndEvents(at time.Time, status Status, reason, detail string) []Event {
	end := Event{At: at, Kind: string(status), Detail: reason}
	if reason != ReasonOverflow {
		return []Event{end}
	}
	return []Event{{At: at, Kind: KindOverflow, Detail: detail}, end}
}

// OverflowError refuses a notification because too many wait in its category of its user.
type OverflowError struct {
	Category string
	// Rung is the one that refused it.
	Rung Rung
	// SlotIn is how far away its slot is; 0 while nobody knows.
	SlotIn time.Duration
}

// Error says what to do.
func (e *OverflowError) Error() string {
	return fmt.Sprintf("more than %d notifications of the user would wait in the category %s, and its overflow ladder refuses more; it was not accepted: send it again later, or send fewer", e.Rung.Waiting, e.Category)
}

// RetryAfter is in how many whole seconds it may be tried again, at least 1.
func (e *OverflowError) RetryAfter() int { return max(1, int(math.Ceil(e.SlotIn.Seconds()))) }
