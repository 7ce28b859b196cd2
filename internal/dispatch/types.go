package dispatch

import (
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Backlog names what waits for one user in one category.
type Backlog struct {
	Partition int
	UserID    string
	Category  string
}

// BacklogOf returns the backlog of a user's category in a deployment with that many partitions.
func BacklogOf(userID, category string, partitions int) Backlog {
	return Backlog{Partition: PartitionOf(userID, partitions), UserID: userID, Category: category}
}

// PartitionOf is the partition of a user: every key and task of theirs lives in it.
func PartitionOf(userID string, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(userID)) // never fails
	return int(h.Sum32() % uint32(partitions))
}

// Wakeup is an active task of the queue, which this process works on. It says that something of its user may be due.
type Wakeup struct {
	UserID string
	// Generation is this run of the task. Once another process has been given the task, requests of an older
	// generation change nothing.
	Generation int64
	// Categories in which something of the user waits; the store needs their settings to decide.
	Categories []string
}

// TakeRequest asks a partition for deliveries that may start now, and for more wake-ups: one round of a worker, made
// in one step.
type TakeRequest struct {
	Partition int
	// ID names the round, as name.number with growing numbers. A request that is repeated with its ID, because the
	// result was lost, has the same result. Rounds of one process and partition must not overlap; a request that
	// arrives after a later one of its process gets nothing.
	ID string
	// Wakeups are those that are due, in order.
	Wakeups []Wakeup
	// Capacity is how many deliveries may start.
	Capacity int
	// Pull is how many more wake-ups to take off the queue.
	Pull int
	// Release are wake-ups that go back to the queue, and come again at once.
	Release []Wakeup
}

// TakeResult is the result of a TakeRequest.
type TakeResult struct {
	// Results has one for each of the Wakeups of the request.
	Results []WakeupResult
	// Pulled came off the queue; the next round has to ask for them. Served did too, and were served in this round.
	Pulled []Wakeup
	Served []ServedWakeup
	// PulledCount is how many wake-ups came off the queue, including those of users for whom nothing waits any more.
	PulledCount int
	// Foreign are tasks in the queue that are not wake-ups: somebody else put them there.
	Foreign []Task
}

// ServedWakeup is a wake-up that came off the queue, and what it got in the same round.
type ServedWakeup struct {
	Wakeup
	WakeupResult
}

// WakeupResult is what one wake-up got.
type WakeupResult struct {
	// Grants are deliveries that may be made, most urgent first.
	Grants []*Grant
	// Held tells that the process keeps the wake-up: it has to ask for it again After the result, with these
	// Categories. Otherwise the wake-up is used up, or back in the queue.
	Held       bool
	After      time.Duration
	Categories []string
	// Again tells that it is back in the queue and comes at once: more may go than the capacity allowed.
	Again bool
	// Rule is the one that a held wake-up waits for; empty when it waits for a retry or a send_at.
	Rule string
}

// Task is a task of the queue as it was found.
type Task struct{ ID, Message string }

// Grant is one delivery that may be made.
type Grant struct {
	Backlog
	// Notification is complete once the grant is claimed; before that, only its ID is certain.
	Notification *notification.Notification
	// Generation fences the grant: a settlement of an earlier generation changes nothing.
	Generation int
	// Claimed fences it in a store that is separate from the agendas.
	Claimed int
	// Attempt is 1 for the first delivery. Failures counts those that cost an attempt.
	Attempt, Failures int
	// AdmittedAt is the moment that the limiter counted, on its clock.
	AdmittedAt time.Time
	// StartIn is how long after RepliedAt that moment comes; 0 when it has come.
	StartIn time.Duration
	// AskedAt is when the request was sent, and RepliedAt when its result came, on this process's clock: the admission
	// was made in between.
	AskedAt, RepliedAt time.Time
	// SlotIn is how long after RepliedAt its slot comes, the moment from which it might have gone; negative when it has
	// passed: the notification is late by that.
	SlotIn time.Duration
	// Deferrals is how often it was deferred; History is what the store remembers of that, in the store's own format.
	Deferrals int
	History   string
	// Items are the notifications that go with this one as one digest, beside itself. Frozen says that it may have
	// reached somebody before: they are the same again.
	Items  []string
	Frozen bool
	// Digest are all that go as one, this one among them, once the grant is claimed; nil for one that goes alone.
	Digest []*notification.Notification
	// Payload is what the store needs to complete the notification.
	Payload string
	// ArrivedAt is when the notification was accepted.
	ArrivedAt time.Time
	// WaitsSince is from when max_defer counts: the last of its acceptance, its send_at and the end of the back-off
	// after its latest failure.
	WaitsSince time.Time
	// Basis is that of the settings that the request carried: the policy that admitted it, and the time zone.
	Basis notification.Basis
	// Epoch is the number under which the partition's state was built, where the store is separate from the agendas.
	Epoch int64
}

// Disposition is what a delivery leads to.
type Disposition uint8

const (
	// Delivered ends it well.
	Delivered Disposition = iota + 1
	// Failed ends it.
	Failed
	// Retry tries it again later.
	Retry
	// Returned gives it back to its place in the backlog, untried.
	Returned
	// Expired, Cancelled and Replaced end it untried: the store found that it must not go out any more.
	Expired
	Cancelled
	Replaced
	// Forgotten takes it out of its agenda: it has ended before, elsewhere.
	Forgotten
)

// Outcome is what became of a grant.
type Outcome struct {
	Disposition Disposition
	// Reason says why, for people: the class and code of the provider's response.
	Reason string
	// Reply is what the provider replied to an attempt that failed, as [push.Reply] makes it.
	Reply string
	// Took is how long the sender took; 0 when nothing was sent.
	Took time.Duration
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
}

// ErrLost says that a partition has lost its state, and has to be rebuilt. The wake-ups that were taken off its queue
// before are void.
var ErrLost = errors.New("the partition has lost its state")

// Store keeps notifications, their agendas and the limiter's state.
type Store interface {
	// Take makes a round. After an error its effect is unknown: either the request is sent again, with its ID, or the
	// store repairs what the round did once this process counts as gone, or the leases of its grants have ended.
	// [ErrLost] says that the round was not made, and never will be.
	Take(ctx context.Context, r TakeRequest) (TakeResult, error)
	// Claim completes a grant; false when it must not be delivered. Then the store has returned or ended it, and after
	// an error has tried to.
	Claim(ctx context.Context, g *Grant) (bool, error)
	// Settle writes what became of a grant, and makes sure that the user has a wake-up if one is needed. It is
	// idempotent.
	Settle(ctx context.Context, g *Grant, o Outcome) (Settlement, error)
	// Extend extends the lease of a grant that is still being sent, or whose result can't be written yet. When the
	// lease is another worker's, nothing changes; after an error, perhaps nothing.
	Extend(ctx context.Context, g *Grant) error
}

// Queue signals pending wake-ups, and archives tasks that are not wake-ups.
type Queue interface {
	Archiver
	// Pending returns a channel that signals, repeatedly, that a partition's queue has a pending wake-up. A receiver
	// that waits while the queue is empty does not miss the next one.
	Pending(partition int) <-chan struct{}
}

// Archiver archives tasks that are not wake-ups.
type Archiver interface {
	// Archive archives a task with the reason, for people to look at.
	Archive(ctx context.Context, partition int, t Task, reason error) error
}

// Observer is told what happens, for metrics. Its methods must be fast and safe for concurrent use.
type Observer interface {
	// Pulled counts wake-ups that were taken off the queue.
	Pulled(n int)
	// Decided reports how long a round took in which at least one wake-up was due.
	Decided(took time.Duration)
	// Deferred counts notifications that have to wait, for a rule or for another reason.
	Deferred(category, rule string, n int)
	// Sent reports one delivery: how long the provider took, how long after its slot it started, see [Grant], how long
	// after acceptance it ended, and the error; nil when it was delivered.
	Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error)
	// Ended counts a notification that this process ended undelivered, as failed or expired.
	Ended(status notification.Status, reason string)
}
