package queue

import (
	"context"
	_ "embed"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed forward.lua
var forwardSource string

// forwardScript does for many lanes at once what asynq's forwarder does for one.
var forwardScript = script.NewWhenFull(forwardSource)

const (
	// watchEvery is how often lanes in which nothing waited are looked at again.
	watchEvery = 20 * time.Millisecond
	// dozeAfter is how many looks in vain let a process that has nothing to do look only every other time.
	dozeAfter = 100
	// forwardEvery is how often due tasks are moved into the queue; asynq's own default is 5 s.
	forwardEvery = 200 * time.Millisecond
)

// watcher looks after lanes that have nothing to do: it moves tasks whose time has come into the queue, and wakes lanes in
// which something waits.
type watcher struct {
	conn    redis.UniversalClient
	lanes   []*lane
	spread  bool // the lanes may be on several servers, so that no command may be of two
	closing <-chan struct{}
	log     *slog.Logger
}

func (w *watcher) watch(ctx context.Context) {
	look, forward := time.NewTicker(watchEvery), time.NewTicker(forwardEvery)
	defer look.Stop()
	defer forward.Stop()
	for inVain := 0; ; {
		select {
		case <-w.closing:
			return
		case <-forward.C:
			w.forward(ctx)
		case <-look.C:
			if inVain++; inVain < dozeAfter || inVain%2 == 0 {
				if w.look(ctx) {
					inVain = 0
				}
			}
		}
	}
}

// groups are lanes of which one command may be.
func (w *watcher) groups(lanes []*lane) [][]*lane {
	if !w.spread {
		return [][]*lane{lanes}
	}
	var groups [][]*lane
	for i := range lanes {
		groups = append(groups, lanes[i:i+1])
	}
	return groups
}

// forward moves what is due into the queue.
func (w *watcher) forward(ctx context.Context) {
	var all sync.WaitGroup
	for _, group := range w.groups(w.lanes) {
		all.Go(func() {
			keys := make([]string, 0, 2*len(group))
			for _, l := range group {
				keys = append(keys, l.keys...)
			}
			if err := forwardScript.Run(ctx, w.conn, keys, time.Now().Unix()).Err(); err != nil {
				w.log.WarnContext(ctx, "move due tasks into the queue; it is tried again", "error", err)
			}
		})
	}
	all.Wait()
}

// look wakes the idle lanes in which something waits; false when it looked in vain.
func (w *watcher) look(ctx context.Context) bool {
	var idle []*lane
	for _, l := range w.lanes {
		if l.idle.Load() {
			idle = append(idle, l)
		}
	}
	if len(idle) == 0 {
		return true
	}
	if !w.spread {
		keys := make([]string, len(idle))
		for i, l := range idle {
			keys[i] = l.pending
		}
		if n, err := w.conn.Exists(ctx, keys...).Result(); err == nil && n == 0 {
			return false // as nearly always when there is little to do
		}
	}
	pipe := w.conn.Pipeline()
	asked := make([]*redis.IntCmd, len(idle))
	for i, l := range idle {
		asked[i] = pipe.Exists(ctx, l.pending)
	}
	_, err := pipe.Exec(ctx)
	found := false
	for i, l := range idle {
		if err != nil || asked[i].Val() > 0 { // of an error the lane tells, when it asks
			found = true
			l.wake()
		}
	}
	return found
}
