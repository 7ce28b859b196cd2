package queue

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
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
	// announceEvery is how often the queues are announced to asynq, in case Redis has lost their names.
	announceEvery = time.Minute
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

// watcher forwards wake-ups that are due, and signals the queues in which one is pending.
type watcher struct {
	client  *Client
	queues  []*watched
	groups  [][]int // the partitions that one script may name together
	closing <-chan struct{}
	log     *slog.Logger

	// asked has the partitions in which to look at once.
	asked chan int

	doorbell  *doorbell
	inVain    int // looks since something was pending
	announced time.Time
}

// watched is the queue of one partition.
type watched struct {
	pending, paused string // asynq's keys
	// signal is full from the moment when a pending task was seen until a loop receives it.
	signal chan struct{}
}

func newWatcher(client *Client, partitions int, spread bool, closing <-chan struct{}, log *slog.Logger) *watcher {
	w := &watcher{
		client: client, closing: closing, log: log, doorbell: newDoorbell(client.conn, spread),
		asked: make(chan int, partitions),
	}
	all := make([]int, partitions)
	for number := range partitions {
		all[number] = number
		w.queues = append(w.queues, &watched{
			pending: prefixOf(number) + "pending", paused: pausedKey(number), signal: make(chan struct{}, 1),
		})
	}
	w.groups = [][]int{all}
	if spread {
		w.groups = slices.Collect(slices.Chunk(all, 1))
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
			moved, next := w.forwardAll(ctx)
			forward.Reset(next)
			if moved {
				w.doorbell.ring()
				look.Reset(w.lookAgain(ctx))
			}
			if time.Since(w.announced) >= announceEvery && w.announce(ctx) {
				w.announced = time.Now()
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

// announce writes the names of the queues for asynq. It returns false when that has to be tried again.
func (w *watcher) announce(ctx context.Context) bool {
	err := w.client.Announce(ctx, len(w.queues))
	if err != nil {
		w.log.DebugContext(ctx, "could not announce the queues to asynq; retrying", "error", err)
	}
	return err == nil
}

// forwardAll moves what is due into the queues, all groups at once. It reports whether it moved something, and after
// how long to forward again.
func (w *watcher) forwardAll(ctx context.Context) (moved bool, next time.Duration) {
	if len(w.groups) == 1 {
		return w.forward(ctx, w.groups[0])
	}
	var all sync.WaitGroup // on several servers, which have clocks of their own
	for _, partitions := range w.groups {
		all.Go(func() { w.forward(ctx, partitions) })
	}
	all.Wait()
	return false, forwardEvery
}

// forward moves what is due in the queues of a group, until nothing more is, or the server stops.
func (w *watcher) forward(ctx context.Context, partitions []int) (moved bool, next time.Duration) {
	for range forwardsAtMost {
		done, err := w.client.Forward(ctx, partitions...)
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
	for _, q := range w.queues {
		if len(q.signal) == 0 {
			silent = append(silent, q)
		}
	}
	if len(silent) == 0 {
		return some
	}
	if len(w.groups) == 1 { // one command may name all keys
		keys := make([]string, len(silent))
		for i, q := range silent {
			keys[i] = q.pending
		}
		switch n, err := w.client.conn.Exists(ctx, keys...).Result(); {
		case err != nil:
			return unknown
		case n == 0:
			return nothing // the usual case when there is little to do
		}
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
func (q *watched) notify() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}
