package dispatch

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// credentialsPause is how long a notification waits that its provider refused for the deployment's credentials.
const credentialsPause = time.Minute

// outcome decides what becomes of a notification whose sender returned e.
func (d *Dispatcher) outcome(g *Grant, e *push.Error) Outcome {
	if e == nil {
		return Outcome{Disposition: Delivered, Reason: "delivered"}
	}
	retry := d.cfg.Settings(g.Notification.Category, g.Notification.Channel).Retry
	o := Outcome{Disposition: Retry, Reason: e.Class.String() + ": " + e.Code, Refund: !e.Counts(), Reply: e.Reply}
	switch e.Class {
	case push.AlreadyDelivered:
		o.Disposition, o.Reason, o.Reply = Delivered, "delivered", ""
	case push.Permanent, push.TargetGone:
		if o.Disposition, o.Failure = Failed, true; e.Partial {
			endDelivered(e, &o)
		}
	case push.Throttled:
		d.deferThrottled(g, e, retry, &o)
	case push.CredentialsRefused:
		o.RetryAfter, o.Behind = max(e.RetryAfter, credentialsPause), !e.Unsent
		if d.tooLate(g, &o) {
			expire(e, &o)
		}
	case push.Transient, push.Ambiguous:
		d.retryFailure(g, e, retry, &o)
	default: // nobody knows the class, so nobody knows what became of the notification
		d.retryFailure(g, e, retry, &o)
	}
	if o.Disposition == Retry && e.Partial && expiresFirst(g, &o) {
		endDelivered(e, &o)
	}
	return o
}

// expiresFirst reports whether a notification expires before its retry. The moment of admission tells what the store's
// clock shows now.
func expiresFirst(g *Grant, o *Outcome) bool {
	now := g.AdmittedAt.Add(time.Since(g.RepliedAt.Add(g.StartIn)))
	return !g.Notification.ExpiresAt.IsZero() && !now.Add(o.RetryAfter).Before(g.Notification.ExpiresAt)
}

// endDelivered ends a notification that some devices have, and the others can't get any more. If it expired, an
// operator who sends again what expired would reach some devices twice.
func endDelivered(e *push.Error, o *Outcome) {
	*o = Outcome{
		Disposition: Delivered, Reason: "delivered to some devices, last " + e.Class.String() + ": " + e.Code,
		Refund: o.Refund, Reply: o.Reply,
	}
}

// deferThrottled defers a notification whose provider asks to slow down. The wait grows with each such response, and
// the notification goes behind those that wait already: else a target that is never ready would take every slot of its
// user. After max_defer it expires, as one does that waits for its slot too long, and also if it bypasses the limits:
// it would be tried without end. One that was not sent at all, because its provider's budget is used up or its channel
// is paused, keeps its place, and its store ends it after max_defer unless it bypasses; only the sender knows when some
// devices have it.
//
// A schedule says when what failed is tried again, in hours and days; a provider that is busy is asked again sooner.
func (d *Dispatcher) deferThrottled(g *Grant, e *push.Error, retry notification.Retry, o *Outcome) {
	if len(retry.Schedule) > 0 {
		retry = notification.DefaultDelivery().Retry
	}
	if e.Unsent {
		o.Untried = true
		retry.MinBackoff = min(retry.MinBackoff, notification.DefaultMinBackoff)
		o.RetryAfter = max(e.RetryAfter, retry.Backoff(1, d.cfg.Random))
		if e.Partial && d.tooLate(g, o) {
			endDelivered(e, o)
		}
		return
	}
	// Attempts that did not fail had such a response, but for those whose worker died.
	o.Behind = true
	o.RetryAfter = max(e.RetryAfter, retry.Backoff(max(1, g.Attempt-g.Failures), d.cfg.Random))
	if d.tooLate(g, o) {
		expire(e, o)
	}
}

// tooLate reports whether the wait that is ahead of a notification would go beyond max_defer. Each wait counts by
// itself: the time in which the notification failed and was to be tried again is no wait.
func (d *Dispatcher) tooLate(g *Grant, o *Outcome) bool {
	limit := d.cfg.MaxDefer(g.Notification.Category)
	return limit > 0 && g.AdmittedAt.Sub(g.WaitsSince)+o.RetryAfter > limit
}

// expire ends a notification that would wait for its provider for too long.
func expire(e *push.Error, o *Outcome) {
	if e.Partial {
		endDelivered(e, o)
		return
	}
	*o = Outcome{
		Disposition: Expired, Reason: notification.ReasonMaxDefer + ", last " + o.Reason, Refund: o.Refund, Reply: o.Reply,
	}
}

// retryFailure retries a failed attempt, until there were too many. One that surely reached nobody comes back behind
// what has not been tried: it would take the slot that it left of the others again and again.
func (d *Dispatcher) retryFailure(g *Grant, e *push.Error, retry notification.Retry, o *Outcome) {
	failures := g.Failures + 1
	switch {
	case failures < retry.MaxAttempts:
		o.Failure, o.RetryAfter = true, max(e.RetryAfter, retry.Backoff(failures, d.cfg.Random))
		o.Behind = e.Class == push.Transient
	case e.Partial:
		endDelivered(e, o)
	default:
		o.Disposition, o.Reason, o.Failure = Failed, notification.ReasonMaxAttempts+", last "+o.Reason, true
	}
}
