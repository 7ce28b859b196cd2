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
	// extendEvery is how often the lease of a delivery is extended while it takes long, or its result can't be written:
	// several times in a lease.
	extendEvery = 3 * time.Second
)

// settle writes the result, also after the context has ended. It retries until Config.SettleTimeout: a notification
// that was sent and not settled is sent again. After a try that fails, it takes the token back.
func (d *Dispatcher) settle(ctx context.Context, g *Grant, o Outcome, held *token) (Settlement, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.SettleTimeout)
	defer cancel()
	forget := d.cancelAfterStop(ctx, cancel)
	defer forget()
	extended := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		settlement, err := d.store.Settle(ctx, g, o)
		if err == nil {
			return settlement, nil
		}
		held.recall()
		if time.Since(extended) >= extendEvery {
			extended = time.Now()
			d.extend(ctx, g)
		}
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
