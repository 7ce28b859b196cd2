package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// firstPause and longestPause lie between tries to write a result. The longest is well within the time that the store
	// gives the living after it was away.
	firstPause, longestPause = 10 * time.Millisecond, 250 * time.Millisecond
	// extendEvery is how often a delivery whose result can't be written has its lease extended: several times in a lease.
	extendEvery = 3 * time.Second
)

// settle writes the result, whatever happens to the context. It tries again until it is written or may be given up:
// what was sent and not written is sent again.
func (d *Dispatcher) settle(ctx context.Context, g *Grant, o Outcome) (Settlement, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.SettleTimeout)
	defer cancel()
	stopHurry := d.hurry(ctx, cancel)
	defer stopHurry()
	extended := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		settlement, err := d.store.Settle(ctx, g, o)
		if err == nil {
			return settlement, nil
		}
		if time.Since(extended) >= extendEvery {
			extended = time.Now()
			d.extend(ctx, g)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Settlement{}, fmt.Errorf("settle notification %s: %w", g.Notification.ID, errors.Join(err, ctx.Err()))
		}
	}
}

// extend keeps the delivery this worker's, if its lease can be reached: its result may have to go elsewhere.
func (d *Dispatcher) extend(ctx context.Context, g *Grant) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := d.store.Extend(ctx, g); err != nil {
		d.cfg.Log.DebugContext(ctx, "extend the lease of a delivery whose result can't be written", "notification_id", g.Notification.ID, "error", err)
	}
}

// hurry ends the tries some time after Stop. The function that it returns must be called when they have ended.
func (d *Dispatcher) hurry(ctx context.Context, cancel context.CancelFunc) (done func() bool) {
	return context.AfterFunc(d.stopped, func() { //nolint:contextcheck // it tells of Stop, and is nobody's parent
		timer := time.NewTimer(d.cfg.Farewell)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
}
