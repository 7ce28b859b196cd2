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
)

// settle writes the result, also after the context has ended. It retries until Config.SettleTimeout: a notification
// that was sent and not settled is sent again. After a try that fails, it takes the token back. Its caller keeps the
// lease.
func (d *Dispatcher) settle(ctx context.Context, g *Grant, o Outcome, held *token) (Settlement, error) {
	ctx = within(d.settles.after(d.cfg.SettleTimeout), ctx)
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

// extend extends the lease of a delivery, where it can: the lease may lie in another store than the result.
func (d *Dispatcher) extend(ctx context.Context, g *Grant) {
	if err := d.store.Extend(ctx, g); err != nil {
		d.cfg.Log.DebugContext(ctx, "could not extend the lease of a delivery in flight",
			"notification_id", g.Notification.ID, "error", err)
	}
}
