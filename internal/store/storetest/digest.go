package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// digested makes notifications of a category in which up to three go as one.
func digested(n *notification.Notification) { n.Category = "digested" }

// wantDigest checks which notifications a grant has go as one.
func (p *probe) wantDigest(g *dispatch.Grant, want ...*notification.Notification) {
	p.Helper()
	var got, ids []string
	for _, n := range g.Digest {
		got = append(got, n.ID+" "+n.Title)
	}
	for _, n := range want {
		ids = append(ids, n.ID+" "+n.Title)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		p.Fatalf("%s goes with %q, want %q", g.Notification.ID, got, ids)
	}
}

// group accepts notifications that go as one, and two that do not go with them: one of another group, and an urgent
// one.
func (p *probe) group() (group, others []*notification.Notification) {
	p.Helper()
	for _, title := range []string{"one", "two", "three"} {
		group = append(group, p.accept(func(n *notification.Notification) { digested(n); n.Title = title }))
	}
	others = append(others,
		p.accept(func(n *notification.Notification) { digested(n); n.GroupKey = "order 7" }),
		p.accept(func(n *notification.Notification) { digested(n); n.Priority = notification.PriorityHigh }))
	return group, others
}

// goesAsOne: what waits of a group goes as one admission and one delivery, and each of it ends with that, of which an
// event tells; what is urgent, and what is of another group, goes alone.
func goesAsOne(p *probe) {
	if err := p.Want(p.Context(), events.Types); err != nil {
		p.Fatal(err)
	}
	group, others := p.group()
	for range 3 {
		g := p.grant()
		switch g.Notification.ID {
		case group[0].ID:
			p.wantDigest(g, group...)
			p.want(group[1].ID, notification.StatusSending, 0, "")
			p.settle(g, wasDelivered)
		case others[0].ID, others[1].ID:
			p.wantDigest(g)
			p.settle(g, wasDelivered)
		default:
			p.Fatalf("%s is granted", g.Notification.ID)
		}
	}
	p.wantNoGrant("an item is granted by itself")
	for i, n := range group {
		attempts := map[bool]int{true: 1}[i == 0]
		if v := p.want(n.ID, notification.StatusDelivered, attempts, ""); v.DigestID != group[0].ID {
			p.Errorf("%s went with the digest %q", n.ID, v.DigestID)
		}
	}
	p.want(group[2].ID, notification.StatusDelivered, 0, notification.ReasonDigest)
	if v := p.want(others[0].ID, notification.StatusDelivered, 1, ""); v.DigestID != "" {
		p.Errorf("%s went with the digest %q", v.ID, v.DigestID)
	}
	p.wantEvents(map[string]string{
		group[0].ID + " delivered": wasDelivered.Reason, group[1].ID + " delivered": notification.ReasonDigest,
		group[2].ID + " delivered": notification.ReasonDigest,
		group[1].ID + " digested":  group[0].ID, group[2].ID + " digested": group[0].ID,
		others[0].ID + " delivered": wasDelivered.Reason, others[1].ID + " delivered": wasDelivered.Reason,
	})
}

// grantOf makes rounds until a notification is granted, and delivers the others.
func (p *probe) grantOf(n *notification.Notification) *dispatch.Grant {
	p.Helper()
	for {
		g := p.grant()
		if g.Notification.ID == n.ID {
			return g
		}
		p.settle(g, wasDelivered)
	}
}

// comesAgainAsItIs: a digest that may have reached somebody has the same content at each attempt, whatever came, or was
// asked for, meanwhile.
func comesAgainAsItIs(p *probe) {
	group, _ := p.group()
	g := p.grantOf(group[0])
	p.settle(g, dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "ambiguous: timeout", Failure: true, RetryAfter: 30 * time.Millisecond,
	})
	newcomer := p.accept(digested)
	for _, n := range group {
		if err := p.Cancel(p.Context(), n.ID); !errors.Is(err, notification.ErrNotWaiting) {
			p.Errorf("cancel %s, which may have arrived: %v", n.ID, err)
		}
	}
	g = p.grantOf(group[0])
	if p.wantDigest(g, group...); !g.Frozen || g.Attempt != 2 {
		p.Errorf("it comes again as attempt %d, frozen %t", g.Attempt, g.Frozen)
	}
	p.settle(g, dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true})
	for _, n := range group[1:] {
		p.want(n.ID, notification.StatusFailed, 0, notification.ReasonDigest)
	}
	for range 2 {
		p.look()
	}
	if v := p.lookUp(newcomer.ID); v.DigestID == group[0].ID {
		p.Errorf("a newcomer is in a digest that may have arrived")
	}
}

// dissolves: when nobody got anything, each goes on by itself, and may go with others next time.
func dissolves(p *probe) {
	group, _ := p.group()
	p.settle(p.grantOf(group[0]), dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, Refund: true, RetryAfter: 30 * time.Millisecond,
	})
	for _, n := range group {
		if v := p.lookUp(n.ID); v.DigestID != "" || v.Status == notification.StatusSending {
			p.Errorf("%s is %s in the digest %q", n.ID, v.Status, v.DigestID)
		}
	}
	if err := p.Cancel(p.Context(), group[0].ID); err != nil {
		p.Fatal(err)
	}
	g := p.grantOf(group[1])
	p.wantDigest(g, group[1:]...)
	if g.Failures != 1 {
		p.Errorf("it failed %d times", g.Failures)
	}
	p.settle(g, dispatch.Outcome{Disposition: dispatch.Returned, Refund: true})
	g = p.grantOf(group[1])
	p.wantDigest(g, group[1:]...)
	p.settle(g, wasDelivered)
	p.want(group[2].ID, notification.StatusDelivered, 0, notification.ReasonDigest)
}

// outlivesItsWorker: a digest whose worker crashed comes again as it is, and ends as a whole when it crashes too often.
func outlivesItsWorker(p *probe) {
	group, _ := p.group()
	for p.crash().Notification.ID != group[0].ID {
	}
	p.repairUntil("the lease ends", p.becomes(group[0].ID, notification.StatusQueued))
	g := p.grantOf(group[0])
	if p.wantDigest(g, group...); !g.Frozen {
		p.Error("it may have reached somebody")
	}
	p.settle(g, wasDelivered)
	for _, n := range group {
		p.becomes(n.ID, notification.StatusDelivered)()
		if v := p.lookUp(n.ID); v.Status != notification.StatusDelivered || v.DigestID != group[0].ID {
			p.Errorf("%s is %s in the digest %q", n.ID, v.Status, v.DigestID)
		}
	}
}

// staysAlone: what may have reached somebody alone comes again as it was, with nothing that came since.
func staysAlone(p *probe) {
	n := p.accept(digested)
	p.settle(p.grant(), dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "timeout", Failure: true, RetryAfter: 30 * time.Millisecond,
	})
	p.accept(digested)
	<-time.After(40 * time.Millisecond) // both may go
	for range 2 {
		g := p.grant()
		p.wantDigest(g)
		p.settle(g, wasDelivered)
	}
	p.want(n.ID, notification.StatusDelivered, 2, "")
}

// wasTriedBefore: what reached nobody by itself may go with another one. It counts as that one's admission only.
func wasTriedBefore(p *probe) {
	tried := p.accept(digested)
	g := p.grant()
	carrier := p.accept(digested)
	p.settle(g, dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 401", Refund: true, Behind: true,
		RetryAfter: 30 * time.Millisecond,
	})
	<-time.After(40 * time.Millisecond) // both may go
	g = p.grant()
	p.wantDigest(g, carrier, tried)
	p.settle(g, wasDelivered)
	p.want(tried.ID, notification.StatusDelivered, 1, notification.ReasonDigest)
	hour := func(string) time.Duration { return time.Hour }
	if err := p.Admissions(p.Context(), 0, throttle.MicrosOf(time.Now()), hour, func(a invariant.Admission) error {
		if a.ID == tried.ID {
			p.Errorf("%s counts as admitted", a.ID)
		}
		return nil
	}); err != nil {
		p.Error(err)
	}
}
