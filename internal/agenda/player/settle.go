package player

import (
	"cmp"
	"slices"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// endedAs are the statuses that dispositions end in.
var endedAs = map[dispatch.Disposition]notification.Status{
	dispatch.Delivered: notification.StatusDelivered, dispatch.Failed: notification.StatusFailed,
	dispatch.Expired: notification.StatusExpired, dispatch.Cancelled: notification.StatusCancelled,
	dispatch.Replaced: notification.StatusReplaced,
}

// Settle notes what became of a grant, by its generation. It reports whether the grant was no longer the worker's.
func (a *Agenda) Settle(now throttle.Micros, n *Note, generation int, o dispatch.Outcome) (stale bool) {
	a.now = now
	if n.Status == "" || n.Generation != generation {
		return true
	}
	plain := (o.Disposition == dispatch.Delivered || o.Disposition == dispatch.Failed) && !o.Refund
	switch {
	case n.Status == notification.StatusQueued && o.Disposition != dispatch.Returned && n.lapsed == generation:
		a.leave(n)
		n.Crashes--
	case n.Status == notification.StatusQueued:
		return true
	case n.Status != notification.StatusSending:
		return plain && n.Status != endedAs[o.Disposition]
	}
	n.lapsed = 0
	a.flight = slices.DeleteFunc(a.flight, func(o *Note) bool { return o == n })
	b := a.track(n.Category)
	b.became(n, o)
	b.tidy()
	return false
}

// became settles a grant.
func (b *Backlog) became(n *Note, o dispatch.Outcome) {
	if o.Refund {
		b.window.Refund(b.agenda.now, n.Admitted, n.head(), n.Token())
	}
	if o.Failure {
		n.Failures++
	}
	if o.Disposition == dispatch.Retry && !o.Refund {
		n.freeze()
	}
	var items []*Note
	stays := n.frozen && (o.Disposition == dispatch.Retry || o.Disposition == dispatch.Returned)
	if !stays && o.Disposition != dispatch.Delivered && o.Disposition != dispatch.Failed {
		items = n.dissolve() // nobody got anything: each goes on by itself
	}
	b.goesOn(n, o)
	for _, item := range items {
		b.itemGoesOn(item, o)
	}
}

// itemGoesOn has one that was in a digest go on by itself.
func (b *Backlog) itemGoesOn(n *Note, o dispatch.Outcome) {
	if o.Disposition != dispatch.Retry {
		o = dispatch.Outcome{Disposition: dispatch.Returned, RetryAfter: o.RetryAfter}
	}
	if o.Failure {
		n.Failures++
	}
	returned := n.Returned
	b.goesOn(n, o)
	n.Returned = returned // it was no grant of its own
}

// goesOn has one go on as an outcome says.
func (b *Backlog) goesOn(n *Note, o dispatch.Outcome) {
	a := b.agenda
	due, disposition, reason := a.now.Add(o.RetryAfter), o.Disposition, o.Reason
	untried := disposition == dispatch.Returned || disposition == dispatch.Retry && o.Untried
	if disposition == dispatch.Retry && n.expired(due) {
		disposition, untried, reason = dispatch.Expired, false, notification.ReasonExpired
	}
	if (disposition == dispatch.Retry || disposition == dispatch.Returned) && a.superseded(n) {
		disposition, reason = dispatch.Replaced, notification.ReasonReplaced
	}
	if untried {
		n.Returned++
	}
	switch disposition {
	case dispatch.Retry:
		b.retry(n, due, o)
	case dispatch.Returned:
		b.enter(n, n.bypasses)
		if o.RetryAfter > 0 {
			a.excused = due
		}
	case dispatch.Forgotten:
		n.Status = ""
	default:
		a.end(n, endedAs[disposition], reason)
	}
}

// retry has a notification wait for its next attempt.
func (b *Backlog) retry(n *Note, due throttle.Micros, o dispatch.Outcome) {
	a := b.agenda
	n.Status, n.retried, n.Held = notification.StatusRetrying, due, o.Untried
	if o.Failure {
		n.failedUntil = due
	}
	if o.Behind {
		*a.cfg.Last++
		n.place = *a.cfg.Last
	}
	a.postpone(n, due)
	a.hold(n)
}

// Sweep ends leases that are over, and what expired while it waited.
func (a *Agenda) Sweep(now throttle.Micros) {
	a.now = now
	ended := slices.DeleteFunc(slices.Clone(a.flight), func(n *Note) bool { return n.Leased > now })
	slices.SortFunc(ended, func(x, y *Note) int {
		return cmp.Or(cmp.Compare(x.Leased, y.Leased), cmp.Compare(x.ID, y.ID))
	})
	a.flight = slices.DeleteFunc(a.flight, func(n *Note) bool { return n.Leased <= now })
	for _, n := range ended {
		n.Crashes++
		switch {
		case n.Crashes >= a.cfg.MaxCrashes:
			a.end(n, notification.StatusFailed, notification.ReasonCrashLoop)
		case len(n.items) == 0 && a.superseded(n):
			a.end(n, notification.StatusReplaced, notification.ReasonReplaced)
		default:
			n.freeze()
			n.lapsed = n.Generation
			a.track(n.Category).enter(n, n.bypasses)
		}
	}
	for _, n := range slices.Clone(a.later) {
		if n.expired(now) {
			a.leave(n)
			a.end(n, notification.StatusExpired, notification.ReasonExpired)
		}
	}
	for _, b := range a.tracks {
		for _, n := range slices.Clone(b.notes) {
			if n.expired(now) {
				a.expire(n, notification.ReasonExpired)
			}
		}
		b.tidy()
	}
}
