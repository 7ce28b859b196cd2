package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// firstPause and longestPause bound the pause between tries to write a result. The longest is much shorter than
	// the truce in which no lease ends after the store was away.
	firstPause, longestPause = 10 * time.Millisecond, 250 * time.Millisecond
	// extendEvery is how often the lease of a delivery is extended: several times in a lease.
	extendEvery = 3 * time.Second
)

// settle writes the result, also after the context has ended. It retries until Config.SettleTimeout: a notification
// that was sent and not settled is sent again. After a try that fails, it takes the token back. Its caller keeps the
// lease.
func (d *Dispatcher) settle(ctx context.Context, g *Grant, o Outcome, held *token) (Settlement, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.SettleTimeout)
	defer cancel()
	forget := d.cancelAfterStop(ctx, cancel)
	defer forget()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		settlement, err := d.store.Settle(ctx, g, o)
		if err == nil {
			return settlement, nil
		}
		held.recall()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Settlement{}, fmt.Errorf("settle notification %s: %w", g.Notification.ID,
				errors.Join(err, ctx.Err()))
		}
	}
}

// keepLease extends the lease of a delivery that takes long, or whose result can't be written, until the function that
// it returns is called: a lease is short, so that what a dead process had in flight is soon granted again.
func (d *Dispatcher) keepLease(ctx context.Context, g *Grant) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	begin := time.AfterFunc(extendEvery, func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.extend(ctx, g)
			timer := time.NewTimer(extendEvery)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	})
	return func() {
		cancel()
		if !begin.Stop() {
			<-ended
		}
	}
}

// extend extends the lease of a delivery, where it can: the lease may lie in another store than the result.
func (d *Dispatcher) extend(ctx context.Context, g *Grant) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := d.store.Extend(ctx, g); err != nil {
		d.cfg.Log.DebugContext(ctx, "could not extend the lease of a delivery in flight",
			"notification_id", g.Notification.ID, "error", err)
	}
}

// cancelAfterStop ends the tries Config.ReleaseTimeout after Stop. The function that it returns must be called when
// they have ended.
func (d *Dispatcher) cancelAfterStop(ctx context.Context, cancel context.CancelFunc) (done func() bool) {
	return context.AfterFunc(d.stopping, func() { //nolint:contextcheck // it only says that Stop was called
		timer := time.NewTimer(d.cfg.ReleaseTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
}
