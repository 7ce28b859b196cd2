package dispatch

import (
	"cmp"
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// start makes a granted delivery in a goroutine of its own, which returns its token in the end.
func (d *Dispatcher) start(g *Grant) {
	d.deliveries.Go(func() { d.run(context.Background(), g) })
}

// run makes one granted delivery. After a panic its token is returned, and the delivery is made again when its lease
// has ended.
func (d *Dispatcher) run(ctx context.Context, g *Grant) {
	held := token{capacity: d.capacity}
	held.begin()
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.ErrorContext(ctx, "a delivery panicked; the notification will be sent again when its lease ends",
				"partition", g.Partition, "panic", p, "stack", string(debug.Stack()))
		}
		held.end()
	}()
	if !d.claim(ctx, g) {
		return
	}
	d.compose(g)
	d.leases.keep(ctx, g)
	defer d.leases.end(g)
	ctx, ended := d.cfg.Trace(ctx, g, g.AskedAt, g.RepliedAt)
	outcome := d.attempt(ctx, g)
	ended(outcome)
	held.lend()
	settlement, err := d.settle(ctx, g, outcome, &held)
	switch {
	case err != nil:
		d.cfg.Log.WarnContext(ctx, "could not settle a delivery; the notification will be sent again when its lease ends, and may arrive twice",
			"outcome", outcome.Reason, "error", err)
	case settlement.Stale:
		d.cfg.Log.WarnContext(ctx, "a delivery finished after its lease had ended; discarded the result, because the notification has been granted again or has ended",
			"notification_id", g.Notification.ID, "attempt", g.Attempt)
	case outcome.Disposition == Failed:
		d.cfg.Log.WarnContext(ctx, "a notification has failed, and is not tried again", "notification_id",
			g.Notification.ID, "channel", g.Notification.Channel, "host", notification.HostOf(g.Notification.To),
			"reason", outcome.Reason)
		d.cfg.Observer.Ended(notification.StatusFailed, outcome.Reason)
	case outcome.Disposition == Expired:
		d.cfg.Observer.Ended(notification.StatusExpired, outcome.Reason)
	}
}

// compose makes one notification of those that go as one.
func (d *Dispatcher) compose(g *Grant) {
	if len(g.Digest) < 2 {
		return
	}
	items, oldest := d.cfg.Shown(g.Notification.Category)
	n := notification.NewDigest(g.Notification, g.Digest, items, oldest)
	g.Notification = n
	// What was accepted fits; with a few more characters it may not.
	if sender, ok := d.senders[n.Channel]; ok && sender.CheckContent(n.WithMore()) == nil {
		g.Notification = n.WithMore()
	}
}

// claim completes the grant; false when it must not be delivered.
func (d *Dispatcher) claim(ctx context.Context, g *Grant) bool {
	ok, err := d.store.Claim(within(d.claims.after(d.cfg.ClaimTimeout), ctx), g)
	if err != nil {
		d.cfg.Log.WarnContext(ctx,
			"could not claim a grant; the notification will be granted again when its lease ends, if not sooner",
			"partition", g.Partition, "error", err)
		return false
	}
	return ok
}

// attempt waits for the grant's moment and delivers, unless it is too late for that.
func (d *Dispatcher) attempt(ctx context.Context, g *Grant) Outcome {
	moment := g.RepliedAt.Add(g.StartIn)
	if wait := time.Until(moment); wait > 0 {
		// Some 40 ms at most, the horizon of the store: a shutdown need not interrupt it.
		timer := time.NewTimer(wait)
		<-timer.C
	}
	if d.staleness.late(g.Partition, g.AskedAt, g.StartIn) {
		return d.returnLate(ctx, g)
	}
	return d.deliver(ctx, g)
}

// returnLate is the outcome of a grant that came too late to be used: its notification is admitted anew.
func (d *Dispatcher) returnLate(ctx context.Context, g *Grant) Outcome {
	d.cfg.Observer.Deferred(g.Notification.Category, push.CodeLate, 1)
	d.cfg.Log.DebugContext(ctx, "a grant arrived too late to be used; returning it", "notification_id", g.Notification.ID)
	return Outcome{Disposition: Returned, Reason: push.CodeLate, Refund: true}
}

// slot is when a grant might have been sent, on this process's clock. No store knows when a pause of the partition
// ended, so this process does.
func (d *Dispatcher) slot(g *Grant) time.Time {
	slot := g.RepliedAt.Add(g.SlotIn)
	if resumed := d.cfg.Resumed(g.Partition); resumed.After(slot) {
		return resumed
	}
	return slot
}

func (d *Dispatcher) deliver(ctx context.Context, g *Grant) Outcome {
	start := time.Now()
	deadline := push.NewDeadline(d.staleness.deadline(g.Partition, g.AskedAt, g.StartIn))
	err := d.send(ctx, g, deadline)
	end := time.Now()
	classified := push.Classify(err)
	if classified != nil && classified.Class == push.AlreadyDelivered {
		return d.outcome(g, classified)
	}
	if classified != nil && classified.Code == push.CodeLate && classified.Unsent {
		d.staleness.late(g.Partition, g.AskedAt, g.StartIn) // the next one may be later
		return d.returnLate(ctx, g)
	}
	if classified != nil && classified.Class == push.Throttled && classified.Unsent {
		// Nothing was sent: the notification waits for its provider's budget, or for the provider to come back.
		d.cfg.Observer.Deferred(g.Notification.Category, classified.Code, 1)
		d.cfg.Log.DebugContext(ctx, "a delivery can't begin now; its notification waits", "notification_id",
			g.Notification.ID, "channel", g.Notification.Channel, "reason", classified.Code)
		return d.outcome(g, classified)
	}
	if began, asked := deadline.Begun(); asked {
		start = began
	}
	d.staleness.began(g.Partition, g.AskedAt, g.StartIn, start)
	d.cfg.Observer.Sent(g.Notification, end.Sub(start), max(0, start.Sub(d.slot(g))),
		end.Sub(g.Notification.CreatedAt), classified)
	outcome := d.outcome(g, classified)
	outcome.Took = end.Sub(start)
	if d.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		d.cfg.Log.DebugContext(ctx, "delivery", "notification_id", g.Notification.ID, "channel", g.Notification.Channel,
			"attempt", g.Attempt, "outcome", outcome.Reason)
	}
	return outcome
}

// send calls the channel's sender. A shutdown waits for the sender, and interrupts it only when it can wait no longer.
func (d *Dispatcher) send(ctx context.Context, g *Grant, deadline *push.Deadline) (err error) {
	category, channel := g.Notification.Category, g.Notification.Channel
	if wait := d.cfg.ChannelPaused(channel); wait > 0 {
		return &push.Error{Class: push.Throttled, Code: "paused_by_operator", RetryAfter: wait, Unsent: true}
	}
	sender, ok := d.senders[channel]
	if !ok {
		return &push.Error{Class: push.Transient, Code: "channel_not_configured", Unsent: true}
	}
	settings := d.cfg.Settings(category, channel)
	leave, busy := d.places.enter(category, channel, settings)
	if busy != nil {
		return busy
	}
	defer leave()
	defer func() {
		if p := recover(); p != nil {
			err = push.Panicked(p)
		}
	}()
	timeout := cmp.Or(settings.Timeout, notification.DefaultTimeout)
	return sender.Send(within(d.sends.after(timeout), ctx), push.Message{
		Notification: g.Notification, Attempt: g.Attempt, AdmittedAt: g.AdmittedAt, Deadline: deadline,
		Passive: d.cfg.Passive(g.Notification, g.AdmittedAt),
	})
}
