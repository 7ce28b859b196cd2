package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// toldOn is the channel on which scripts tell that a list of pending tasks is no longer empty, see wakeup.lua. A
	// user of Redis that may use asynq's channels may use it.
	toldOn = "asynq:pacer:pending"
	// mistrustFor is how long a watcher looks, after something was pending of which it had not been told: by asynq's
	// tools, or by somebody who may not publish.
	mistrustFor = time.Minute
	// checkedEvery is how often the connection on which it is told is checked.
	checkedEvery = 10 * time.Second
)

// doorbell tells a watcher that has nothing to do when something is pending. It is set only while nothing is: in a
// deployment that is busy nobody is told. A nil doorbell can't be set.
type doorbell struct {
	conn   redis.UniversalClient
	pubsub *redis.PubSub
	events <-chan any // nil before the doorbell is set for the first time

	set, confirmed bool
	rung           bool // since the last look
	mistrusted     time.Time
}

// newDoorbell makes a doorbell, or nil where nobody is told; see [Tells].
func newDoorbell(conn redis.UniversalClient, spread bool) *doorbell {
	if spread {
		return nil
	}
	return &doorbell{conn: conn}
}

// rings receives what [doorbell.hear] wants.
func (d *doorbell) rings() <-chan any {
	if d == nil {
		return nil
	}
	return d.events
}

// hear takes in what rings sent, and reports whether to look at once.
func (d *doorbell) hear(event any) bool {
	switch event := event.(type) {
	case *redis.Subscription: // again after each reconnection: what was told meanwhile is lost
		d.confirmed = d.set && event.Kind == "subscribe"
		return d.confirmed
	case *redis.Message:
		d.rung = true
		return true
	}
	return false
}

// ring has the next look not mistrust the doorbell, because the watcher itself knows that something is pending.
func (d *doorbell) ring() {
	if d != nil {
		d.rung = true
	}
}

// looked takes in what a look found, and reports whether the doorbell wakes the watcher from now on. idle says that
// nothing was pending for long.
func (d *doorbell) looked(ctx context.Context, found pending, idle bool) bool {
	if d == nil {
		return false
	}
	asleep, rung := d.confirmed, d.rung
	d.rung = false
	switch {
	case found != nothing:
		if asleep && !rung && found != unknown {
			d.mistrusted = time.Now()
		}
		d.clear(ctx)
	case !d.set && idle && time.Since(d.mistrusted) > mistrustFor:
		d.start(ctx)
	}
	return d.confirmed
}

// start sets the doorbell. It rings once that is confirmed, since what came before that is not told.
func (d *doorbell) start(ctx context.Context) {
	if d.pubsub == nil {
		d.pubsub = d.conn.Subscribe(ctx)
		d.events = d.pubsub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(checkedEvery))
	}
	_ = d.pubsub.Subscribe(ctx, toldOn) // the driver tries again, and until it is confirmed the watcher looks
	d.set = true
}

// clear ends that the process is told.
func (d *doorbell) clear(ctx context.Context) {
	if !d.set {
		return
	}
	d.set, d.confirmed = false, false
	_ = d.pubsub.Unsubscribe(ctx, toldOn) // if it fails, the driver has closed the connection
}

// close closes the connection.
func (d *doorbell) close() {
	if d != nil && d.pubsub != nil {
		_ = d.pubsub.Close() // nothing is left to be told
	}
}
