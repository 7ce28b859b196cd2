package queue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// watchEvery is how often the queues without a signal are checked.
	watchEvery = 20 * time.Millisecond
	// dozeAfter is how many checks in a row find nothing before only every other check is made.
	dozeAfter = 100
	// forwardEvery is how often due tasks are moved into the queue; asynq's own default is 5 s.
	forwardEvery = 200 * time.Millisecond
	// forwardsAtMost is how many scripts follow one another. What is still due then waits for the next time.
	forwardsAtMost = 100
	// announceEvery is how often the queues are announced to asynq, in case Redis has lost their names.
	announceEvery = time.Minute
)

// watcher forwards wake-ups that are due, and signals the queues in which one is pending.
type watcher struct {
	client  *Client
	queues  []*watched
	groups  [][]int // the partitions that one script may name together
	closing <-chan struct{}
	log     *slog.Logger
}

// watched is the queue of one partition.
type watched struct {
	pending, paused string // asynq's keys
	// signal is full from the moment when a pending task was seen until a loop receives it.
	signal chan struct{}
}

func newWatcher(client *Client, partitions int, spread bool, closing <-chan struct{}, log *slog.Logger) *watcher {
	w := &watcher{client: client, closing: closing, log: log}
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
	look, forward := time.NewTicker(watchEvery), time.NewTicker(forwardEvery)
	defer look.Stop()
	defer forward.Stop()
	announced := time.Time{}
	for inVain := 0; ; {
		select {
		case <-w.closing:
			return
		case <-forward.C:
			w.forwardAll(ctx)
			if time.Since(announced) >= announceEvery && w.announce(ctx) {
				announced = time.Now()
			}
		case <-look.C:
			if inVain++; inVain < dozeAfter || inVain%2 == 0 {
				if w.look(ctx) {
					inVain = 0
				}
			}
		}
	}
}

// announce writes the names of the queues for asynq. It returns false when that has to be tried again.
func (w *watcher) announce(ctx context.Context) bool {
	err := w.client.Announce(ctx, len(w.queues))
	if err != nil {
		w.log.DebugContext(ctx, "could not announce the queues to asynq; retrying", "error", err)
	}
	return err == nil
}

// forwardAll moves what is due into the queues, all groups at once.
func (w *watcher) forwardAll(ctx context.Context) {
	var all sync.WaitGroup
	for _, partitions := range w.groups {
		all.Go(func() {
			if err := w.forward(ctx, partitions); err != nil {
				w.log.WarnContext(ctx, "could not forward due tasks; retrying", "error", err)
			}
		})
	}
	all.Wait()
}

// forward moves what is due in the queues of a group, until nothing more is, or the server stops.
func (w *watcher) forward(ctx context.Context, partitions []int) error {
	for range forwardsAtMost {
		more, err := w.client.Forward(ctx, partitions...)
		if err != nil || !more {
			return err
		}
		select {
		case <-w.closing:
			return nil
		default:
		}
	}
	return nil
}

// look signals the queues in which a task is pending, unless they are paused. It returns false when there is none.
func (w *watcher) look(ctx context.Context) bool {
	var silent []*watched
	for _, q := range w.queues {
		if len(q.signal) == 0 {
			silent = append(silent, q)
		}
	}
	if len(silent) == 0 {
		return true
	}
	if len(w.groups) == 1 { // one command may name all keys
		keys := make([]string, len(silent))
		for i, q := range silent {
			keys[i] = q.pending
		}
		if n, err := w.client.conn.Exists(ctx, keys...).Result(); err != nil || n == 0 {
			return false // the usual case when there is little to do; the next round of a loop reports an error
		}
	}
	pipe := w.client.conn.Pipeline()
	pending, paused := make([]*redis.IntCmd, len(silent)), make([]*redis.IntCmd, len(silent))
	for i, q := range silent {
		pending[i], paused[i] = pipe.Exists(ctx, q.pending), pipe.Exists(ctx, q.paused)
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	found := false
	for i, q := range silent {
		if pending[i].Val() > 0 && paused[i].Val() == 0 {
			found = true
			q.notify()
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
