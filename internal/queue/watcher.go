package queue

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/beat"
)

const (
	// watchEvery is how often the queues without a signal are checked.
	watchEvery = 20 * time.Millisecond
	// dozeAfter is how many checks in a row find nothing before only every other check is made, and the doorbell is
	// set.
	dozeAfter = 100
	// asleepEvery is how often they are checked while the doorbell is set.
	asleepEvery = 250 * time.Millisecond
	// forwardEvery is how often due tasks are moved into the queue, where it is not known when a second of Redis's
	// clock begins; asynq's own default is 5 s. Tasks are scheduled for whole seconds, so else they are moved once a
	// second.
	forwardEvery = 200 * time.Millisecond
	// forwardAfter is how long after the beginning of a second that is at the earliest, forwardSpread over how much
	// more time several processes are spread.
	forwardAfter, forwardSpread = 5 * time.Millisecond, 95 * time.Millisecond
	// forwardsAtMost is how many scripts follow one another. What is still due then waits for the next time.
	forwardsAtMost = 100
)

// pending says what a look found.
type pending uint8

// What a look finds. The error of one that failed is reported by the next round of a loop.
const (
	nothing pending = iota
	unknown
	onlyPaused // all that is pending is in paused queues
	some
)

// watcher forwards wake-ups that are due, and signals the queues in which one is pending. All of its queues are on one
// server: one that does not respond keeps only its own users waiting, however long the driver waits for it.
type watcher struct {
	client     *Client
	partitions []int
	queues     map[int]*watched // by partition
	closing    <-chan struct{}
	log        *slog.Logger

	// asked has the partitions in which to look at once.
	asked chan int

	doorbell *doorbell
	inVain   int // looks since something was pending
}

// watched is the queue of one partition.
type watched struct {
	pending, paused string // asynq's keys
	// signal is full from the moment when a pending task was seen until a loop receives it.
	signal chan struct{}
}

func newWatcher(
	client *Client, partitions []int, doorbell *doorbell, closing <-chan struct{}, log *slog.Logger,
) *watcher {
	w := &watcher{
		client: client, partitions: partitions, queues: map[int]*watched{}, closing: closing, log: log,
		doorbell: doorbell, asked: make(chan int, len(partitions)),
	}
	for _, number := range partitions {
		w.queues[number] = &watched{
			pending: prefixOf(number) + "pending", paused: pausedKey(number), signal: make(chan struct{}, 1),
		}
	}
	return w
}

func (w *watcher) watch(ctx context.Context) {
	look, forward := time.NewTimer(watchEvery), time.NewTimer(forwardEvery)
	defer look.Stop()
	defer forward.Stop()
	defer w.doorbell.close()
	for {
		select {
		case <-w.closing:
			return
		case <-forward.C:
			moved, next := w.forward(ctx)
			forward.Reset(next)
			if moved {
				w.doorbell.ring()
				look.Reset(w.lookAgain(ctx))
			}
		case <-look.C:
			look.Reset(w.lookAgain(ctx))
		case partition := <-w.asked:
			w.lookAt(ctx, partition)
		case event := <-w.doorbell.rings():
			if w.doorbell.hear(event) {
				look.Reset(w.lookAgain(ctx))
			}
		}
	}
}

// lookAgain looks, and returns after how long to look again.
func (w *watcher) lookAgain(ctx context.Context) time.Duration {
	found := w.look(ctx)
	if w.inVain++; found == some {
		w.inVain = 0
	}
	switch idle := w.inVain >= dozeAfter; {
	case w.doorbell.looked(ctx, found, idle):
		return beat.Until(asleepEvery)
	case idle:
		return 2 * watchEvery
	}
	return watchEvery
}

// forward moves what is due into the queues, until nothing more is, or the server stops. It reports whether it moved
// something, and after how long to forward again.
func (w *watcher) forward(ctx context.Context) (moved bool, next time.Duration) {
	for range forwardsAtMost {
		done, err := w.client.Forward(ctx, w.partitions...)
		if err != nil {
			w.log.WarnContext(ctx, "could not forward due tasks; retrying", "error", err)
			return moved, forwardEvery
		}
		moved = moved || done.Moved > 0
		if !done.More {
			//nolint:gosec // spread, no secret
			return moved, done.Next + forwardAfter + rand.N(forwardSpread)
		}
		select {
		case <-w.closing:
			return moved, forwardEvery
		default:
		}
	}
	return moved, forwardEvery
}

// look signals the queues in which a task is pending, unless they are paused.
func (w *watcher) look(ctx context.Context) pending {
	var silent []*watched
	var keys []string
	for _, q := range w.queues {
		if len(q.signal) == 0 {
			silent, keys = append(silent, q), append(keys, q.pending)
		}
	}
	if len(silent) == 0 {
		return some
	}
	switch n, err := w.client.conn.Exists(ctx, keys...).Result(); {
	case err != nil:
		return unknown
	case n == 0:
		return nothing // the usual case when there is little to do
	}
	return w.signal(ctx, silent)
}

// ask has the watcher look at a partition. When it is asked too much, it finds what is pending as it would else.
func (w *watcher) ask(partition int) {
	select {
	case w.asked <- partition:
	default:
	}
}

// lookAt looks at one partition, and at the others that were asked for meanwhile.
func (w *watcher) lookAt(ctx context.Context, partition int) {
	silent := map[*watched]bool{}
	for more := true; more; {
		if q := w.queues[partition]; len(q.signal) == 0 {
			silent[q] = true
		}
		select {
		case partition = <-w.asked:
		default:
			more = false
		}
	}
	if len(silent) > 0 && w.signal(ctx, slices.Collect(maps.Keys(silent))) == some {
		w.inVain = 0
	}
}

// signal signals those of the queues in which a task is pending, unless they are paused.
func (w *watcher) signal(ctx context.Context, queues []*watched) pending {
	pipe := w.client.conn.Pipeline()
	tasks, paused := make([]*redis.IntCmd, len(queues)), make([]*redis.IntCmd, len(queues))
	for i, q := range queues {
		tasks[i], paused[i] = pipe.Exists(ctx, q.pending), pipe.Exists(ctx, q.paused)
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	found := nothing
	for i, q := range queues {
		switch {
		case tasks[i].Val() > 0 && paused[i].Val() == 0:
			found = some
			q.notify()
		case tasks[i].Err() != nil:
			found = max(found, unknown)
		case tasks[i].Val() > 0:
			found = max(found, onlyPaused)
		}
	}
	return found
}

// notify wakes the loop that waits for the queue, now or next.
func (w *watched) notify() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}
