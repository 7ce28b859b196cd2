package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

const (
	// watchEvery is how often the queues without a signal are checked.
	watchEvery = 20 * time.Millisecond
	// dozeAfter is after how many checks that found nothing only every other check is made.
	dozeAfter = 100
	// forwardEvery is how often due tasks are moved into the queue; asynq's own default is 5 s.
	forwardEvery = 200 * time.Millisecond
	// announceEvery is how often the queues are announced to asynq, in case Redis has lost their names.
	announceEvery = time.Minute
)

// watcher forwards due tasks into the queues, and signals queues in which a task is pending.
type watcher struct {
	conn    redis.UniversalClient
	queues  []*watched
	spread  bool // the queues may be on several servers, so that no command may be of two
	closing <-chan struct{}
	log     *slog.Logger
}

// watched is the queue of one partition.
type watched struct {
	keys            []string // what scripts name as their keys
	pending, paused string
	// signal is full from when a task was seen pending until a loop receives it.
	signal chan struct{}
}

func newWatcher(conn redis.UniversalClient, partitions int, spread bool, closing <-chan struct{},
	log *slog.Logger,
) *watcher {
	w := &watcher{conn: conn, spread: spread, closing: closing, log: log}
	for number := range partitions {
		prefix := prefixOf(number)
		w.queues = append(w.queues, &watched{
			keys: dispatch.PartitionKeys(prefix), pending: prefix + "pending",
			paused: prefix + "paused", signal: make(chan struct{}, 1),
		})
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
			w.forward(ctx)
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

// announce writes the names of the queues for asynq; false when it has to be tried again.
func (w *watcher) announce(ctx context.Context) bool {
	err := NewClient(w.conn).Announce(ctx, len(w.queues))
	if err != nil {
		w.log.DebugContext(ctx, "could not announce the queues to asynq; retrying", "error", err)
	}
	return err == nil
}

// groups are the queues that one command may name together.
func (w *watcher) groups() [][]*watched {
	if !w.spread {
		return [][]*watched{w.queues}
	}
	var groups [][]*watched
	for i := range w.queues {
		groups = append(groups, w.queues[i:i+1])
	}
	return groups
}

// forward moves what is due into the queues.
func (w *watcher) forward(ctx context.Context) {
	var all sync.WaitGroup
	for _, group := range w.groups() {
		all.Go(func() {
			keys := make([]string, 0, 2*len(group))
			for _, q := range group {
				keys = append(keys, q.keys...)
			}
			if err := forward(ctx, w.conn, keys, w.closing); err != nil {
				w.log.WarnContext(ctx, "could not forward due tasks; retrying", "error", err)
			}
		})
	}
	all.Wait()
}

// look signals the queues in which a task is pending, unless they are paused; false when it found none.
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
	if !w.spread {
		keys := make([]string, len(silent))
		for i, q := range silent {
			keys[i] = q.pending
		}
		if n, err := w.conn.Exists(ctx, keys...).Result(); err != nil || n == 0 {
			return false // the usual case when there is little to do; an error is reported by the next round of a loop
		}
	}
	pipe := w.conn.Pipeline()
	pending, paused := make([]*redis.IntCmd, len(silent)), make([]*redis.IntCmd, len(silent))
	for i, q := range silent {
		pending[i], paused[i] = pipe.Exists(ctx, q.pending), pipe.Exists(ctx, q.paused)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
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
