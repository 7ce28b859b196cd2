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
	extend func(ctx context.Context, g *Grant)

	mu        sync.Mutex
	kept      map[*Grant]keptLease
	looking   bool
	extending sync.WaitGroup
}

// keptLease is that of a delivery.
type keptLease struct {
	ctx   context.Context //nolint:containedctx // that of the delivery: its values are those of the extensions
	since time.Time       // when it began, or was extended last
}

func newLeases(extend func(context.Context, *Grant)) *leases {
	return &leases{extend: extend, kept: map[*Grant]keptLease{}}
}

// keep begins to keep the lease of a delivery, until end is called.
func (l *leases) keep(ctx context.Context, g *Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[g] = keptLease{ctx, time.Now()}
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
	for g, lease := range l.kept {
		if now.Sub(lease.since) < extendEvery {
			continue
		}
		l.kept[g] = keptLease{lease.ctx, now}
		l.extending.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(lease.ctx), extendTimeout)
			defer cancel()
			l.extend(ctx, g)
		})
	}
	time.AfterFunc(leaseRound, l.look)
}

// wait waits for the extensions that are under way.
func (l *leases) wait() { l.extending.Wait() }
