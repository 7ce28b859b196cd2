package storetest

import (
	"cmp"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
)

// eventsTell: whatever ends does so once, and tells of it in one event, as does each first deferral and each device
// that is gone. The series has no gap, and nothing is written while nobody wants events.
func eventsTell(p *probe) {
	want := map[string]string{}
	statuses := map[dispatch.Disposition]notification.Status{
		dispatch.Delivered: notification.StatusDelivered, dispatch.Failed: notification.StatusFailed,
	}
	end := func(told string, o dispatch.Outcome, change func(*notification.Notification)) {
		id := p.accept(change).ID
		g := p.grant()
		for range 2 { // the reply to the first may be lost
			if s := p.settle(g, o); s.Stale {
				p.Error("a repeated settlement is stale")
			}
		}
		p.want(id, statuses[o.Disposition], 1, o.Reason)
		p.wantNoGrant("it is granted again")
		want[id+" "+told] = o.Reason
	}
	slow := func(n *notification.Notification) { n.UserID, n.Category = "bob", "slow" }
	later := func(n *notification.Notification) { n.SendAt, n.CollapseKey = time.Now().Add(time.Hour), "k" }
	end("", dispatch.Outcome{Disposition: dispatch.Delivered}, nil)
	clear(want)
	if err := p.Want(p.Context(), events.Types); err != nil {
		p.Fatal(err)
	}
	end("delivered", dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}, slow)
	end("failed", dispatch.Outcome{Disposition: dispatch.Failed, Reason: "permanent: 400", Refund: true}, nil)
	want[p.accept(later).ID+" replaced"] = "collapse_key"
	last := p.accept(later).ID
	want[last+" cancelled"] = notification.ReasonCancelled
	if err := p.Cancel(p.Context(), last); err != nil {
		p.Fatal(err)
	}
	want[p.accept(slow).ID+" deferred"] = "limit 1/1h"
	p.look() // it is deferred now, and the next one at once
	last = p.accept(func(n *notification.Notification) {
		slow(n)
		n.ExpiresAt = time.Now().Add(300 * time.Millisecond)
	}).ID
	want[last+" deferred"], want[last+" expired"] = "limit 1/1h", notification.ReasonExpired
	p.repairUntil("its end", p.becomes(last, notification.StatusExpired))
	device := p.register("ada", "phone", "https://example.com/")
	want["phone device.deactivated"] = "410"
	for range 2 {
		if err := p.Deactivate(p.Context(), &device, time.Time{}, want["phone device.deactivated"]); err != nil {
			p.Fatal(err)
		}
	}
	p.wantEvents(want)
}

// wantEvents wants the log to tell these, each once.
func (p *probe) wantEvents(want map[string]string) {
	p.Helper()
	all, err := p.Events(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	for i, e := range all {
		about := cmp.Or(e.NotificationID, e.DeviceID) + " " + strings.TrimPrefix(e.Type, "notification.")
		attempt := map[string]int{events.Delivered: 1, events.Failed: 1}[e.Type]
		if e.Reason == notification.ReasonDigest { // its carrier had the attempt
			attempt = 0
		}
		version := map[string]string{"digested": digestedVersion}[e.Category]
		if reason, is := want[about]; !is || e.Reason != reason || e.Sequence != int64(i+1) || e.Attempt != attempt ||
			e.PolicyVersion != version || e.ID == "" || e.UserID == "" || time.Since(e.At).Abs() > time.Minute ||
			e.Status != events.StatusOf(e.Type) {
			p.Errorf("event %d is %+v, want it to be among %v", i+1, e, want)
		}
		delete(want, about)
	}
	if len(want) > 0 {
		p.Errorf("no events tell of %v", want)
	}
}
