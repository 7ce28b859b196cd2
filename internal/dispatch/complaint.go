package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// complaintInterval is how often failures of the same kind are told of at most.
const complaintInterval = 10 * time.Second

// complaints tells of ticks that failed: of the first at once, of those that follow in one line now and then, since a
// store that is away fails them all.
type complaints struct {
	mu     sync.Mutex
	last   time.Time
	silent int
}

// tell logs a failure, unless it is a deferral or one was told of just now.
func (d *Dispatcher) tell(ctx context.Context, err error) {
	if deferral, ok := errors.AsType[*DeferralError](err); err == nil || ok && deferral != nil {
		return
	}
	c := &d.complaints
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.last) >= complaintInterval {
		d.cfg.Log.WarnContext(ctx, "a tick failed; the queue or the sweeper brings another", "error", err, "and_before", c.silent)
		c.last, c.silent = now, 0
		return
	}
	c.silent++
}
