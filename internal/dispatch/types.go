package dispatch

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Mailbox names what waits for one user's category.
type Mailbox struct {
	Lane     int
	UserID   string
	Category string
}

// MailboxOf gives the mailbox of a user's category in a deployment with that many lanes.
func MailboxOf(userID, category string, lanes int) Mailbox {
	return Mailbox{Lane: LaneOf(userID, lanes), UserID: userID, Category: category}
}

// LaneOf is the lane of a user: every key and task of theirs lives in it.
func LaneOf(userID string, lanes int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(userID)) // never fails
	return int(h.Sum32() % uint32(lanes))
}

// LaneName names a lane's queue. As the hash tag of all keys of the lane it keeps them on one shard.
func LaneName(lane int) string { return laneName + strconv.Itoa(lane) }

// LaneKeys is what a script of a lane names as its keys: the prefix of all that it touches, and a second name. Neither is
// ever written. While Redis Cluster moves the lane's slot some keys lie here and some there; a script that names two keys
// which are not where it is sent is refused then (TRYAGAIN), where one with a single name would run on half of the lane.
func LaneKeys(prefix string) []string { return []string{prefix, prefix + "whole"} }

// LaneOfName reads a lane's number back from its name.
func LaneOfName(name string) (int, error) {
	lane, err := strconv.Atoi(strings.TrimPrefix(name, laneName))
	if err != nil || LaneName(lane) != name {
		return 0, fmt.Errorf("%q names no lane", name)
	}
	return lane, nil
}

const laneName = "push-"

// Tick is a task of the queue. It says that somebody may run for its mailbox, not who.
type Tick struct {
	// ID is the task's name: the notification's that it was made for, or one of its own.
	ID string
	Mailbox
}

// Question is what a tick asks the record.
type Question struct {
	Tick
	// Nonce names this question: asked twice with it, because an answer was lost, the answer is the same.
	Nonce string
	// Pulled is true when the tick has just come off the queue, false when it asks again.
	Pulled bool
}

// Answer is one of three: run the grant, ask again after the wait, or nothing is left to do (neither).
type Answer struct {
	Grant *Grant
	Wait  *Wait
	// Extra is a tick that must be put into the queue, since no other would come at the next slot.
	Extra *Alarm
}

// Wait says when to ask again.
type Wait struct {
	// For is how long, counted from the moment of the answer.
	For time.Duration
	// Rule that makes it wait; empty when a retry or a send_at is due then.
	Rule string
}

// Alarm is a tick to be enqueued.
type Alarm struct {
	Tick Tick
	// After is how long until it has to come; at once when it is 0.
	After time.Duration
}

// Grant is one delivery that may be made.
type Grant struct {
	Mailbox
	Notification *notification.Notification
	// Generation fences the grant: a settlement of an earlier generation changes nothing.
	Generation int
	// Claim fences it likewise in a record that is kept apart from the mailboxes.
	Claim int
	// Attempt is 1 for the first delivery. Failures counts those that cost an attempt.
	Attempt, Failures int
	// AdmittedAt is the moment that the limiter counted, on its clock.
	AdmittedAt time.Time
	// StartIn is how long after the answer that moment comes; 0 when it is now.
	StartIn time.Duration
	// AskedAt is when the admission was asked for, on this process's clock: it was made then or later. Zero: when Take was
	// called.
	AskedAt time.Time
	// Tick that it was granted to.
	Tick Tick
	// History is what the record remembers of its deferrals, in a form of the record's.
	History string
}

// Fate is what a delivery leads to.
type Fate uint8

const (
	// Delivered ends it well.
	Delivered Fate = iota + 1
	// Failed ends it.
	Failed
	// Retry tries it again later.
	Retry
	// Returned gives it back to its place in line, untried.
	Returned
	// Expired, Cancelled and Replaced end it untried: the record found that it must not go out any more.
	Expired
	Cancelled
	Replaced
	// Forgotten takes it out of its mailbox: it has ended before, elsewhere.
	Forgotten
)

// Outcome is what became of a grant.
type Outcome struct {
	Fate Fate
	// Reason says why, for people: the class and code of the provider's answer.
	Reason string
	// RetryAfter is how long to wait before a retry.
	RetryAfter time.Duration
	// Refund gives the throttle slot back: nobody got anything.
	Refund bool
	// Failure counts against the attempts.
	Failure bool
	// Untried says of a retry that it was no attempt: nobody was asked, it waits for its provider.
	Untried bool
	// Behind has a retry come back behind what waits already, instead of to its own place.
	Behind bool
}

// Settlement is what a settled outcome led to.
type Settlement struct {
	// Stale is true when the grant was no longer this worker's, so that nothing was written.
	Stale bool
	// RetryIn is how long until the tick serves the retry; 0 when there is none.
	RetryIn time.Duration
}

// Record is where notifications, their mailboxes and the limiter's state live.
type Record interface {
	// Take asks whether somebody of the tick's mailbox may run. An answer's extra tick is to be enqueued even beside an error:
	// the mailbox counts on it.
	Take(ctx context.Context, q Question) (Answer, error)
	// Settle writes what became of a grant. Settling twice is harmless.
	Settle(ctx context.Context, g *Grant, o Outcome) (Settlement, error)
	// Extend lets the lease of a grant begin anew, since its result can't be written yet. An error, or a lease that is not
	// this worker's any more, changes nothing.
	Extend(ctx context.Context, g *Grant) error
}

// Queue brings ticks to the workers.
type Queue interface {
	// Enqueue makes ticks come at their times. A tick that the queue holds already is left as it is. After an error some
	// may have got in: asking again is harmless.
	Enqueue(ctx context.Context, alarms ...Alarm) error
}

// Observer is told what happens, for metrics. Its methods must be fast and safe for concurrent use.
type Observer interface {
	Pulled()
	Decided(took time.Duration)
	Deferred(category, rule string)
	// Sent reports one delivery: how long the provider took, how late it started after its slot, how long after the
	// notification was accepted it ended, and the error, nil when it was delivered.
	Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error)
}

// DeferralError is returned by Handle when the tick has to come again. It is no failure.
type DeferralError struct {
	// Until is when, on this process's clock.
	Until time.Time
}

// Error tells until when.
func (e *DeferralError) Error() string {
	return fmt.Sprintf("deferred until %s", e.Until.Format(time.RFC3339Nano))
}
