package dispatch

import (
	"context"
	"sync"
	"time"
)

const (
	// extendEvery is how often the lease of a delivery is extended: several times in a lease.
	extendEvery = 3 * time.Second
	// leaseRound is how often leases are looked at while there are any.
	leaseRound = time.Second
	// extendTimeout bounds one extension.
	extendTimeout = time.Second
)

// leases extends the leases of deliveries that take long, or whose results can't be written: a lease is short, so that
// what a dead process had in flight is soon granted again.
type leases struct {
	ctx    context.Context //nolint:containedctx // of all extensions
	extend func(ctx context.Context, g *Grant)

	mu        sync.Mutex
	kept      map[*Grant]time.Time // since when its lease runs
	looking   bool
	extending sync.WaitGroup
}

func newLeases(ctx context.Context, extend func(context.Context, *Grant)) *leases {
	return &leases{ctx: ctx, extend: extend, kept: map[*Grant]time.Time{}}
}

// keep begins to keep the lease of a delivery, until end is called.
func (l *leases) keep(g *Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[g] = time.Now()
	if !l.looking {
		l.looking = true
		time.AfterFunc(leaseRound, l.look)
	}
}

// end stops to keep the lease. One that is just being extended may be so afterwards: then the store refuses that.
func (l *leases) end(g *Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.kept, g)
}

// look has the leases extended for which it is time, and looks again later while there are any.
func (l *leases) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looking = len(l.kept) > 0; !l.looking {
		return
	}
	now := time.Now()
	for g, since := range l.kept {
		if now.Sub(since) < extendEvery {
			continue
		}
		l.kept[g] = now
		l.extending.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, extendTimeout)
			defer cancel()
			l.extend(ctx, g)
		})
	}
	time.AfterFunc(leaseRound, l.look)
}

// wait waits for the extensions that are under way.
func (l *leases) wait() { l.extending.Wait() }
