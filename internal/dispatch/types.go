package dispatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Backlog names what waits of one user in one category.
type Backlog struct {
	Partition int
	UserID    string
	Category  string
}

// BacklogOf gives the backlog of a user's category in a deployment with that many partitions.
func BacklogOf(userID, category string, partitions int) Backlog {
	return Backlog{Partition: PartitionOf(userID, partitions), UserID: userID, Category: category}
}

// PartitionOf is the partition of a user: every key and task of theirs lives in it.
func PartitionOf(userID string, partitions int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(userID)) // never fails
	return int(h.Sum32() % uint32(partitions))
}

// PartitionName names a partition's queue. As the hash tag of all keys of the partition it keeps them on one shard.
func PartitionName(partition int) string { return partitionName + strconv.Itoa(partition) }

// PartitionKeys is what a script of a partition names as its keys: the prefix of all that it touches, and a second name. Neither is
// ever written. While Redis Cluster moves the partition's slot some keys lie here and some there; a script that names two keys
// which are not where it is sent is refused then (TRYAGAIN), where one with a single name would run on half of the partition.
func PartitionKeys(prefix string) []string { return []string{prefix, prefix + "whole"} }

// PartitionOfName reads a partition's number back from its name.
func PartitionOfName(name string) (int, error) {
	partition, err := strconv.Atoi(strings.TrimPrefix(name, partitionName))
	if err != nil || PartitionName(partition) != name {
		return 0, fmt.Errorf("%q names no partition", name)
	}
	return partition, nil
}

const partitionName = "push-"

// Wakeup is a task of the queue that this process has at work. It says that something of its user may be due.
type Wakeup struct {
	UserID string
	// Generation is this run of the task. Once the task has been given to somebody else, what an older generation asks
	// changes nothing.
	Generation int64
	// Categories in which something of the user waits; the store needs their settings to decide.
	Categories []string
}

// Round is what a worker asks of one partition in one step: whom to deliver to now, and more work.
type Round struct {
	Partition int
	// ID names this round, as name.number with numbers that grow: asked again with it, because the answer was lost, the
	// answer is the same. Rounds of one process and partition must not overlap; one that comes late, after a later one was
	// answered, gives nothing out.
	ID string
	// Wakeups are to be asked for, in this order.
	Wakeups []Wakeup
	// Room is how many deliveries may begin.
	Room int
	// Pull is how many further wake-ups to take off the queue.
	Pull int
	// Release are given back to the queue, to come again at once.
	Release []Wakeup
}

// Reply answers a Round.
type Reply struct {
	// Taken has one answer for each wake-up that was asked for.
	Taken []Taken
	// Pulled came off the queue; the next round has to ask for them. Begun did, too, and were answered at once.
	Pulled []Wakeup
	Begun  []Begun
	// Came is how many wake-ups came off the queue, those included of users of whom nothing waits any more.
	Came int
	// Foreign are tasks that are no wake-ups: somebody else put them into the queue.
	Foreign []Task
}

// Begun is a wake-up that came off the queue and was answered in the same round.
type Begun struct {
	Wakeup
	Taken
}

// Taken is what one wake-up got.
type Taken struct {
	// Grants are deliveries that may be made, most urgent first.
	Grants []*Grant
	// Held is true while the wake-up stays this process's, to ask again After the answer, with these Categories. Else it has
	// gone back to the queue, for now or for later, or is used up.
	Held       bool
	After      time.Duration
	Categories []string
	// Again says that it has gone back to the queue to come at once, because more may go than it was given.
	Again bool
	// Rule that a held one waits for; empty when a retry or a send_at is due then.
	Rule string
}

// Task is a task of the queue as it was found.
type Task struct{ ID, Message string }

// Grant is one delivery that may be made.
type Grant struct {
	Backlog
	// Notification is complete once the grant is claimed; before, only its ID is known for sure.
	Notification *notification.Notification
	// Generation fences the grant: a settlement of an earlier generation changes nothing.
	Generation int
	// Claimed fences it likewise in a store that is kept apart from the agendas.
	Claimed int
	// Attempt is 1 for the first delivery. Failures counts those that cost an attempt.
	Attempt, Failures int
	// AdmittedAt is the moment that the limiter counted, on its clock.
	AdmittedAt time.Time
	// StartIn is how long after the answer that moment comes; 0 when it is now.
	StartIn time.Duration
	// AskedAt is when the admission was asked for, and AnsweredAt when the answer came, on this process's clock: it was made
	// in between.
	AskedAt, AnsweredAt time.Time
	// Slot is the moment for which the wake-up was held, on this process's clock; zero when it was not.
	Slot time.Time
	// Deferrals is how often it was deferred; History is what the store remembers of that, in a form of the store's.
	Deferrals int
	History   string
	// Payload is what the store needs to make the notification complete.
	Payload string
	// ArrivedAt is when the notification was accepted.
	ArrivedAt time.Time
	// Epoch is the number under which the partition's state was built, where the store is kept apart from the agendas.
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
}

// ErrLost says that a partition has lost its state, and waits to be built again: the wake-ups that were taken off its queue
// mean nothing any more.
var ErrLost = errors.New("the partition has lost its state")

// Store is where notifications, their agendas and the limiter's state live.
type Store interface {
	// Serve answers a round. After an error it is unknown what happened: the round has to be asked again, with its ID, or the
	// store repairs what it did once this process's presence, or the leases of what it granted, have ended. An error that is
	// [ErrLost] is an answer: the round has not been made, and never will be.
	Serve(ctx context.Context, r Round) (Reply, error)
	// Claim makes a grant complete; false when it must not be delivered: then the store has given it back or ended it. So it
	// does, as far as it can, beside an error.
	Claim(ctx context.Context, g *Grant) (bool, error)
	// Settle writes what became of a grant, and sees to it that the user's next wake-up stands. Settling twice is harmless.
	Settle(ctx context.Context, g *Grant, o Outcome) (Settlement, error)
	// Extend lets the lease of a grant begin anew, since its result can't be written yet. An error, or a lease that is not
	// this worker's any more, changes nothing.
	Extend(ctx context.Context, g *Grant) error
}

// Queue tells when there is work, and puts aside what is none.
type Queue interface {
	Archiver
	// Pending gives what tells, again and again, that a wake-up stands in a partition's queue. Whoever waits on it while
	// nothing is there must not miss the next.
	Pending(partition int) <-chan struct{}
}

// Archiver puts aside what is no work.
type Archiver interface {
	// Archive puts a task aside that is no wake-up, with the reason, for people to look at.
	Archive(ctx context.Context, partition int, t Task, reason error) error
}

// Observer is told what happens, for metrics. Its methods must be fast and safe for concurrent use.
type Observer interface {
	// Pulled counts wake-ups that were taken off the queue.
	Pulled(n int)
	// Decided tells how long a round took that asked for something.
	Decided(took time.Duration)
	// Deferred counts notifications that have to wait for a rule, or for a reason that is none.
	Deferred(category, rule string, n int)
	// Sent reports one delivery: how long the provider took, how late it started after its slot, how long after the
	// notification was accepted it ended, and the error, nil when it was delivered.
	Sent(n *notification.Notification, provider, lateness, endToEnd time.Duration, err *push.Error)
}
