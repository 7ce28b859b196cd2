package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// change changes a notification that waits, and returns it.
func (p *probe) change(id string, c notification.Change) *notification.View {
	p.Helper()
	if err := p.Change(p.Context(), id, c); err != nil {
		p.Fatalf("change %s: %v", id, err)
	}
	v := p.lookUp(id)
	kind := notification.KindChanged
	if c.Release {
		kind = notification.KindReleased
	}
	if !slices.ContainsFunc(v.Timeline, func(e notification.Event) bool { return e.Kind == kind }) {
		p.Errorf("the timeline of %s says nothing of its change: %+v", id, v.Timeline)
	}
	return v
}

// wantUnchangeable wants a notification to be neither changed nor released.
func (p *probe) wantUnchangeable(id string, want error) {
	p.Helper()
	for _, c := range []notification.Change{{Priority: notification.PriorityHigh}, {Release: true}} {
		if err := p.Change(p.Context(), id, c); !errors.Is(err, want) {
			p.Errorf("change %s: %v, want %v", id, err, want)
		}
	}
}

// tryLater settles a grant to be tried again in an hour.
func (p *probe) tryLater(g *dispatch.Grant) {
	p.Helper()
	p.settle(g, dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Hour, Failure: true, Refund: true,
	})
	p.want(g.Notification.ID, notification.StatusRetrying, 1, "")
}

// changed: what waits gets another priority and other moments, wherever it waits; what is being sent or has ended does
// not.
func changed(p *probe) {
	later, never := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), time.Time{}
	n := p.accept(func(n *notification.Notification) { n.SendAt = later })
	if v := p.change(n.ID, notification.Change{SendAt: &never, Priority: notification.PriorityHigh}); v.Status !=
		notification.StatusQueued || v.Priority != notification.PriorityHigh || !v.SendAt.IsZero() {
		p.Errorf("without its send_at: %+v", v)
	}
	if v := p.change(n.ID, notification.Change{SendAt: &later}); v.Status != notification.StatusScheduled ||
		!v.DeliverAt.Equal(later) {
		p.Errorf("with a send_at: %+v", v)
	}
	p.wantNoGrant("it is granted before its send_at")
	past := later.Add(-2 * time.Hour)
	p.change(n.ID, notification.Change{SendAt: &past})
	g := p.grant()
	if g.Notification.Priority != notification.PriorityHigh || !g.Notification.SendAt.Equal(past) {
		p.Errorf("granted %+v", g.Notification)
	}
	p.wantUnchangeable(n.ID, notification.ErrNotWaiting)
	p.tryLater(g)
	p.change(n.ID, notification.Change{Priority: notification.PriorityLow})
	p.want(n.ID, notification.StatusRetrying, 1, "")
	p.change(n.ID, notification.Change{SendAt: &never})
	p.settle(p.grant(), wasDelivered)
	p.wantUnchangeable(n.ID, notification.ErrNotWaiting)
	p.wantUnchangeable("nobody", notification.ErrNotFound)
	tooLate := time.Now().Add(100 * 24 * time.Hour)
	n = p.accept(func(n *notification.Notification) { n.SendAt = later })
	for _, c := range []notification.Change{{SendAt: &tooLate}, {ExpiresAt: &later}} {
		if err := p.Change(p.Context(), n.ID, c); len(notification.FieldErrors(err)) != 1 {
			p.Errorf("changed to what is refused: %v", err)
		}
	}
}

// changedPlace: a changed priority changes the place in a backlog, and a changed expiry the end there.
func changedPlace(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	p.accept(slow)
	p.grant()
	first, second := p.accept(slow), p.accept(slow)
	third := p.accept(func(n *notification.Notification) {
		n.Category, n.ExpiresAt = "slow", time.Now().Add(300*time.Millisecond)
	})
	p.look()
	p.want(second.ID, notification.StatusDeferred, 0, "")
	if v := p.change(second.ID, notification.Change{Priority: notification.PriorityHigh}); v.Ahead != 0 ||
		v.Status != notification.StatusDeferred {
		p.Errorf("more urgent: %+v", v)
	}
	if v := p.lookUp(first.ID); v.Ahead != 1 {
		p.Errorf("overtaken: %+v", v)
	}
	never, soon := time.Time{}, time.Now().Add(400*time.Millisecond)
	p.change(third.ID, notification.Change{ExpiresAt: &never})
	p.change(first.ID, notification.Change{ExpiresAt: &soon})
	p.repairUntil("it expires", p.becomes(first.ID, notification.StatusExpired))
	p.want(third.ID, notification.StatusDeferred, 0, "")
}

// released: what waits goes at once, whatever it waits for, also when it is tried again; and it counts for others.
func released(p *probe) {
	release := notification.Change{Release: true}
	wait := func(n *notification.Notification) { n.Category = "two a minute" }
	n := p.accept(func(n *notification.Notification) {
		n.Category, n.SendAt = "two a minute", time.Now().Add(time.Hour)
	})
	p.change(n.ID, release)
	p.settle(p.grant(), wasDelivered)
	p.accept(wait)
	p.settle(p.grant(), wasDelivered)
	behind, waits := p.accept(wait), p.accept(wait)
	p.wantNoGrant("what was released does not count")
	p.want(waits.ID, notification.StatusDeferred, 0, "")
	if v := p.change(waits.ID, release); v.Priority != notification.PriorityNormal || v.Ahead != 0 {
		p.Errorf("released: %+v", v)
	}
	g := p.grant()
	if g.Notification.ID != waits.ID || g.Notification.Priority != notification.PriorityNormal {
		p.Errorf("granted %+v", g.Notification)
	}
	p.wantUnchangeable(waits.ID, notification.ErrNotWaiting)
	p.tryLater(g)
	p.change(waits.ID, release)
	g = p.grant()
	p.settle(g, dispatch.Outcome{Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true})
	p.change(waits.ID, notification.Change{Priority: notification.PriorityLow}) // it stays released
	p.settle(p.grant(), wasDelivered)
	p.want(behind.ID, notification.StatusDeferred, 0, "")
}

// groupCancelled: what waits of a user with a group key is cancelled, wherever it waits, and nothing else.
func groupCancelled(p *probe) {
	in := func(change func(*notification.Notification)) *notification.Notification {
		return p.accept(func(n *notification.Notification) {
			n.GroupKey, n.Category = "order 7", "slow"
			change(n)
		})
	}
	sent := in(func(*notification.Notification) {})
	g := p.grant()
	later := in(func(n *notification.Notification) { n.Category = "free" })
	p.tryLater(p.grant())
	scheduled := in(func(n *notification.Notification) { n.SendAt = time.Now().Add(time.Hour) })
	deferred := in(func(*notification.Notification) {})
	others := []*notification.Notification{
		in(func(n *notification.Notification) { n.GroupKey = "order 77" }),
		in(func(n *notification.Notification) { n.UserID, n.SendAt = "ben", time.Now().Add(time.Hour) }),
		in(func(n *notification.Notification) { n.GroupKey = "" }),
	}
	p.look()
	for _, want := range []int{3, 0} {
		if n, err := p.CancelGroup(p.Context(), "ada", "order 7"); n != want || err != nil {
			p.Errorf("cancelled %d, %v, want %d", n, err, want)
		}
	}
	for _, n := range []*notification.Notification{scheduled, deferred} {
		p.want(n.ID, notification.StatusCancelled, 0, notification.ReasonCancelled)
	}
	p.want(later.ID, notification.StatusCancelled, 1, notification.ReasonCancelled)
	for _, n := range others {
		if v := p.lookUp(n.ID); !v.Status.Waiting() {
			p.Errorf("another one is %s", v.Status)
		}
	}
	p.settle(g, wasDelivered)
	p.want(sent.ID, notification.StatusDelivered, 1, "")
}
