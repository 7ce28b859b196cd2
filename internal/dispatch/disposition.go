package dispatch

import (
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// credentialsPause is how long a notification waits that its provider refused for the deployment's credentials.
const credentialsPause = time.Minute

// judge turns a sender's answer into the notification's disposition.
func (d *Dispatcher) judge(g *Grant, e *push.Error) Outcome {
	if e == nil {
		return Outcome{Disposition: Delivered, Reason: "delivered"}
	}
	retry := d.cfg.Retry()
	o := Outcome{Disposition: Retry, Reason: e.Class.String() + ": " + e.Code, Refund: !e.Counts()}
	switch e.Class {
	case push.AlreadyDelivered:
		o.Disposition, o.Reason = Delivered, "delivered"
	case push.Permanent, push.TargetGone:
		o.Disposition, o.Failure = Failed, true
	case push.Throttled:
		d.judgeThrottled(g, e, retry, &o)
	case push.CredentialsRefused:
		o.RetryAfter = max(e.RetryAfter, credentialsPause)
	case push.Transient, push.Ambiguous:
		judgeFailure(g, e, retry, &o)
	default: // nobody knows the class, so nobody knows what became of the notification
		judgeFailure(g, e, retry, &o)
	}
	return o
}

// judgeThrottled has what a provider asks to slow down come again, after a wait that grows with each such answer and behind
// what waits already: else a target that is never ready would take every slot of its user. It ends like what waits for
// its slot too long. What nobody was asked about (its provider's budget, a pause) keeps its place.
func (d *Dispatcher) judgeThrottled(g *Grant, e *push.Error, retry RetryPolicy, o *Outcome) {
	if e.Unsent {
		o.Untried = true
		o.RetryAfter = max(e.RetryAfter, retry.Backoff(1))
		return
	}
	// Attempts that did not fail were answered so, but for those whose worker died.
	o.Behind = true
	o.RetryAfter = max(e.RetryAfter, retry.Backoff(max(1, g.Attempt-g.Failures)))
	if limit := d.cfg.MaxDefer(g.Notification.Category); limit <= 0 || waited(g)+o.RetryAfter <= limit {
		return
	}
	*o = Outcome{Disposition: Expired, Reason: notification.ReasonMaxDefer + ", last " + o.Reason, Refund: o.Refund}
	if e.Partial {
		o.Disposition, o.Reason = Delivered, "delivered to some devices, last "+e.Class.String()+": "+e.Code
	}
}

// waited is how long before its admission the notification might have gone out.
func waited(g *Grant) time.Duration {
	since := g.Notification.CreatedAt
	if g.Notification.SendAt.After(since) {
		since = g.Notification.SendAt
	}
	return g.AdmittedAt.Sub(since)
}

// judgeFailure has a failed attempt tried again until there were too many.
func judgeFailure(g *Grant, e *push.Error, retry RetryPolicy, o *Outcome) {
	failures := g.Failures + 1
	switch {
	case failures < retry.MaxAttempts:
		o.Failure, o.RetryAfter = true, max(e.RetryAfter, retry.Backoff(failures))
	case e.Partial:
		o.Disposition, o.Reason = Delivered, "delivered to some devices, last "+o.Reason
	default:
		o.Disposition, o.Reason, o.Failure = Failed, notification.ReasonMaxAttempts+", last "+o.Reason, true
	}
}
