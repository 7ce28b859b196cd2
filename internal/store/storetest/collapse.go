package storetest

import (
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// supersededIsKnown: of a notification that has failed the store knows whether a newer one with its user, category and
// collapse key was accepted, whatever became of the newer.
func supersededIsKnown(p *probe) {
	want := func(n *notification.Notification, want bool, when string) {
		p.Helper()
		if got, err := p.Superseded(p.Context(), n); err != nil || got != want {
			p.Errorf("%s: %s is superseded: %t, %v; want %t", when, n.ID, got, err, want)
		}
	}
	fails := dispatch.Outcome{Disposition: dispatch.Failed, Reason: "target_gone: 410", Failure: true}
	keyed := func(n *notification.Notification) { n.CollapseKey = "score" }
	older := p.accept(keyed)
	p.settle(p.grant(), fails)
	for _, change := range []func(*notification.Notification){
		nil,
		func(n *notification.Notification) { n.CollapseKey = "scores" },
		func(n *notification.Notification) { n.CollapseKey, n.UserID = "score", "ben" },
		func(n *notification.Notification) { n.CollapseKey, n.Category = "score", "slow" },
	} {
		want(p.accept(change), false, "another is accepted")
		p.settle(p.grant(), wasDelivered)
	}
	want(older, false, "others are delivered")
	newer := p.accept(keyed)
	want(older, true, "the newer waits")
	g := p.grant()
	want(older, true, "the newer is being sent")
	p.settle(g, fails)
	want(older, true, "the newer has failed")
	want(newer, false, "it has failed")
}

// replacedSlotIsUsed: what comes back untried and has been replaced meanwhile leaves its slot to what waits, at once.
func replacedSlotIsUsed(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	keyed := func(n *notification.Notification) { n.Category, n.CollapseKey = "slow", "score" }
	p.accept(keyed)
	replaced := p.grant()
	waits := p.accept(slow)
	p.look() // it is deferred
	p.accept(func(n *notification.Notification) { keyed(n); n.SendAt = time.Now().Add(time.Hour) })
	p.settle(replaced, dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true})
	if id := p.grant().Notification.ID; id != waits.ID {
		p.Errorf("granted is %s, want %s", id, waits.ID)
	}
}
