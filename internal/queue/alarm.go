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
	// mistrustFor is how long a watcher looks, after something was pending of which it had not been told: by a process of
	// an earlier version, by asynq's tools, or by somebody who may not publish.
	mistrustFor = time.Minute
	// checkedEvery is how often the connection on which it is told is checked.
	checkedEvery = 10 * time.Second
)

// alarm tells a watcher that has nothing to do when something is pending. It is set only while nothing is: in a
// deployment that is busy nobody is told. A nil alarm can't be set.
type alarm struct {
	conn   redis.UniversalClient
	pubsub *redis.PubSub
	events <-chan any // nil before the alarm is set for the first time

	set, confirmed bool
	rung           bool // since the last look
	mistrusted     time.Time
}

// newAlarm makes an alarm, or nil where nobody is told; see [Tells].
func newAlarm(conn redis.UniversalClient, spread bool) *alarm {
	if spread {
		return nil
	}
	return &alarm{conn: conn}
}

// rings receives what [alarm.hear] wants.
func (a *alarm) rings() <-chan any {
	if a == nil {
		return nil
	}
	return a.events
}

// hear takes in what rings sent, and tells whether to look at once.
func (a *alarm) hear(event any) bool {
	switch event := event.(type) {
	case *redis.Subscription: // again after each reconnection: what was told meanwhile is lost
		a.confirmed = a.set && event.Kind == "subscribe"
		return a.confirmed
	case *redis.Message:
		a.rung = true
		return true
	}
	return false
}

// ring has the next look not mistrust the alarm, because the watcher itself knows that something is pending.
func (a *alarm) ring() {
	if a != nil {
		a.rung = true
	}
}

// looked takes in what a look found, and tells whether the alarm wakes the watcher from now on. idle says that nothing was
// pending for long.
func (a *alarm) looked(ctx context.Context, found pending, idle bool) bool {
	if a == nil {
		return false
	}
	asleep, rung := a.confirmed, a.rung
	a.rung = false
	switch {
	case found != nothing:
		if asleep && !rung && found != unknown {
			a.mistrusted = time.Now()
		}
		a.clear(ctx)
	case !a.set && idle && time.Since(a.mistrusted) > mistrustFor:
		a.start(ctx)
	}
	return a.confirmed
}

// start sets the alarm. It rings once that is confirmed, since what came before that is not told.
func (a *alarm) start(ctx context.Context) {
	if a.pubsub == nil {
		a.pubsub = a.conn.Subscribe(ctx)
		a.events = a.pubsub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(checkedEvery))
	}
	_ = a.pubsub.Subscribe(ctx, toldOn) // the driver tries again, and until it is confirmed the watcher looks
	a.set = true
}

// clear ends that the process is told.
func (a *alarm) clear(ctx context.Context) {
	if !a.set {
		return
	}
	a.set, a.confirmed = false, false
	_ = a.pubsub.Unsubscribe(ctx, toldOn) // if it fails, the driver has closed the connection
}

// close closes the connection.
func (a *alarm) close() {
	if a != nil && a.pubsub != nil {
		_ = a.pubsub.Close() // nothing is left to be told
	}
}
