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
	// watchEvery is how often queues are looked at of which nobody was told.
	watchEvery = 20 * time.Millisecond
	// dozeAfter is how many looks in vain let a process that has nothing to do look only every other time.
	dozeAfter = 100
	// forwardEvery is how often due tasks are moved into the queue; asynq's own default is 5 s.
	forwardEvery = 200 * time.Millisecond
	// announceEvery is how often asynq is told of the queues, in case that Redis has lost what it was told.
	announceEvery = time.Minute
)

// watcher moves tasks whose time has come into the queues, and tells of queues in which something is pending.
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
	// signal holds something while nobody has looked since something was pending.
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

// announce tells asynq of the queues; false when it has to be tried again.
func (w *watcher) announce(ctx context.Context) bool {
	err := NewClient(w.conn).Announce(ctx, len(w.queues))
	if err != nil {
		w.log.DebugContext(ctx, "could not announce the queues; it is tried again", "error", err)
	}
	return err == nil
}

// groups are queues of which one command may be.
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
				w.log.WarnContext(ctx, "move due tasks into the queue; it is tried again", "error", err)
			}
		})
	}
	all.Wait()
}

// look tells of the queues in which something is pending, unless they are paused; false when it looked in vain.
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
			return false // as nearly always when there is little to do; of an error those tell who ask for more
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
			q.tell()
		}
	}
	return found
}

// tell has whoever waits, now or next, look.
func (q *watched) tell() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}
