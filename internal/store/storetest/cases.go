package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/events"
	"github.com/pacer-notify/pacer/internal/notification"
)

// The outcomes that many cases settle with.
var (
	wasDelivered = dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}
	// wasLost is a failure that is tried again at once.
	wasLost = dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: 50 * time.Millisecond,
	}
	// wasUntried waits for its provider, which was not asked.
	wasUntried = dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "throttled: provider_budget", Untried: true, Refund: true,
		RetryAfter: 50 * time.Millisecond,
	}
)

// acceptedOnce: an id is accepted once; a repeat finds the first.
func acceptedOnce(p *probe) {
	n := p.accept(nil)
	first := p.want(n.ID, notification.StatusQueued, 0, "")
	again := p.acceptAll(n)[0]
	if !again.Known {
		p.Errorf("accepted again: %+v", again)
	}
	if diff := cmp.Diff(&first.Notification, again.First, besideArrival); diff != "" {
		p.Errorf("the first, as a repeat finds it (-want +got):\n%s", diff)
	}
}

// acceptedTwiceInOneBatch: an id that comes twice in one batch makes one notification.
func acceptedTwiceInOneBatch(p *probe) {
	n := p.notification(nil)
	if a := p.acceptAll(n, n); a[0].Known || !a[1].Known {
		p.Fatalf("%+v", a)
	}
	p.settle(p.grant(), wasDelivered)
	p.wantNoGrant("it is granted twice")
}

// besideArrival compares what producers gave.
var besideArrival = cmpopts.IgnoreFields(notification.Notification{}, "Arrival")

// contentComesBack: a notification is granted and shown as it was accepted, every character of it.
func contentComesBack(p *probe) {
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	n := p.accept(func(n *notification.Notification) {
		n.Channel, n.To, n.Title, n.Body = notification.ChannelWebhook, "https://example.com/ü?a=1", "ti\"tle",
			"bo\ndy\u2028 'x' $1"
		n.Data, n.Priority, n.ExpiresAt, n.CollapseKey, n.GroupKey = []byte(`{"b":[1,2.50],"a":"\u0000 \" ü"}`),
			notification.PriorityHigh, at, "key: 'x'", "group: 'ü'"
		n.Override = []byte(`{"headers":{"x":[1,null,"ü"]}}`)
		n.UserID = "user:with {strange} 'letters' ü"
	})
	g := p.grant()
	n.CreatedAt = g.Notification.CreatedAt
	if diff := cmp.Diff(n, g.Notification, besideArrival); diff != "" {
		p.Errorf("the granted notification differs (accepted -, granted +):\n%s", diff)
	}
	v := p.want(n.ID, notification.StatusSending, 1, "")
	if diff := cmp.Diff(*n, v.Notification, besideArrival); diff != "" {
		p.Errorf("the view differs (accepted -, shown +):\n%s", diff)
	}
}

// delivered: a notification is granted once, and ends as delivered.
func delivered(p *probe) {
	n := p.accept(nil)
	g := p.grant()
	if g.Notification.ID != n.ID || g.Attempt != 1 || g.Failures != 0 || g.AdmittedAt.IsZero() ||
		g.Backlog != dispatch.BacklogOf(n.UserID, n.Category, Partitions) {
		p.Fatalf("granted %+v", g)
	}
	p.want(n.ID, notification.StatusSending, 1, "")
	p.wantNoGrant("it is granted twice")
	if s := p.settle(g, wasDelivered); s != (dispatch.Settlement{}) {
		p.Errorf("settled: %+v", s)
	}
	v := p.want(n.ID, notification.StatusDelivered, 1, "delivered")
	if len(v.Timeline) < 3 || v.Timeline[0].Kind != "accepted" || v.Timeline[len(v.Timeline)-1].Kind != "delivered" {
		p.Errorf("timeline %+v", v.Timeline)
	}
}

// sameRequest: a take request that is repeated, because its result was lost, gets the same result.
func sameRequest(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.Category = "changing" })
	pull := dispatch.TakeRequest{Partition: dispatch.PartitionOf(n.UserID, Partitions), ID: "pull", Pull: 8}
	first, second := p.take(pull), p.take(pull)
	if diff := cmp.Diff(first.Pulled, second.Pulled); diff != "" || len(first.Pulled) != 1 {
		p.Fatalf("the repeat pulls other wake-ups (first -, second +):\n%s", diff)
	}
	serve := dispatch.TakeRequest{
		Partition: pull.Partition, ID: "the result was lost", Wakeups: first.Pulled, Capacity: 8,
	}
	g, again := p.take(serve).Results[0].Grants, p.take(serve).Results[0].Grants
	if len(g) != 1 || len(again) != 1 {
		p.Fatalf("granted %v, the repeat %v", g, again)
	}
	// Both count from the reply, which comes later.
	again[0].StartIn, again[0].SlotIn = g[0].StartIn, g[0].SlotIn
	if diff := cmp.Diff(g[0], again[0]); diff != "" {
		p.Errorf("the repeat gets another grant (first -, second +):\n%s", diff)
	}
	for _, grant := range []*dispatch.Grant{g[0], again[0]} {
		if ok, err := p.Claim(p.Context(), grant); !ok || err != nil {
			p.Fatalf("claim: %t, %v", ok, err)
		}
	}
	p.settle(again[0], wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

// throttled: what a limit holds back is deferred, in order, and knows its slot.
func throttled(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	first := p.accept(slow)
	second := p.accept(slow)
	g := p.grant()
	if g.Notification.ID != first.ID {
		p.Fatalf("%s goes first", g.Notification.ID)
	}
	p.settle(g, wasDelivered)
	p.wantNoGrant("the second is granted too")
	v := p.want(second.ID, notification.StatusDeferred, 0, "limit 1/1h")
	if v.Deferrals != 1 || time.Until(v.DeliverAt) < 59*time.Minute {
		p.Errorf("deferred %d times, expected at %s", v.Deferrals, v.DeliverAt)
	}
	third := p.accept(slow)
	if v := p.want(third.ID, notification.StatusDeferred, 0, "limit 1/1h"); v.Ahead != 1 {
		p.Errorf("%d go before the third, want 1", v.Ahead)
	}
}

// noAttempt: what was returned unsent, or waits for its provider, was no attempt. It comes again, and its slot is
// refunded.
func noAttempt(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.Category = "slow" })
	first := func() *dispatch.Grant {
		p.Helper()
		g := p.grant()
		if g.Attempt != 1 || g.Failures != 0 {
			p.Errorf("attempt %d after %d failures", g.Attempt, g.Failures)
		}
		return g
	}
	p.settle(first(), dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true})
	p.want(n.ID, notification.StatusQueued, 0, "")
	p.settle(first(), wasUntried)
	p.want(n.ID, notification.StatusRetrying, 0, wasUntried.Reason)
	p.settle(first(), wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

// comesBackBehind: what its provider did not take waits behind the others. Where the attempt surely reached nobody, it
// frees the windows, and counts as a failure. One that the provider throttled does not, and may expire.
func comesBackBehind(p *probe) {
	for _, c := range []struct {
		category, reason string
		refused          bool
		failures         int
		end              dispatch.Outcome
		status           notification.Status
	}{
		{
			"free", "throttled: 429", false, 0,
			dispatch.Outcome{Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429"},
			notification.StatusExpired,
		},
		{"slow", "transient: 401", true, 1, wasDelivered, notification.StatusDelivered},
	} {
		in := func(n *notification.Notification) { n.Category = c.category }
		first := p.accept(in)
		g := p.grant()
		second := p.accept(in)
		p.settle(g, dispatch.Outcome{
			Disposition: dispatch.Retry, Reason: c.reason, RetryAfter: 50 * time.Millisecond, Behind: true,
			Failure: c.refused, Refund: c.refused,
		})
		p.want(first.ID, notification.StatusRetrying, 1, c.reason)
		<-time.After(60 * time.Millisecond) // both may go
		g = p.grant()
		if g.Notification.ID != second.ID {
			p.Errorf("%s comes before %s, which was not tried yet", g.Notification.ID, second.ID)
		}
		p.settle(g, dispatch.Outcome{
			Disposition: dispatch.Failed, Reason: "permanent: 400", Failure: true, Refund: true,
		})
		g = p.grant()
		if g.Notification.ID != first.ID || g.Attempt != 2 || g.Failures != c.failures {
			p.Errorf("then comes %s: attempt %d after %d failures", g.Notification.ID, g.Attempt, g.Failures)
		}
		p.settle(g, c.end)
		p.want(first.ID, c.status, 2, c.end.Reason)
	}
	p.accept(func(n *notification.Notification) { n.Category = "slow" })
	p.wantNoGrant("what was delivered does not count")
}

// cancelled: what waits is cancelled once, and never granted. What is being sent, or has ended, is not cancelled.
func cancelled(p *probe) {
	refused := func(id, when string) {
		p.Helper()
		if err := p.Cancel(p.Context(), id); !errors.Is(err, notification.ErrNotWaiting) {
			p.Errorf("cancelled %s: %v", when, err)
		}
	}
	waits := p.accept(nil)
	if err := p.Cancel(p.Context(), waits.ID); err != nil {
		p.Fatal(err)
	}
	p.want(waits.ID, notification.StatusCancelled, 0, "cancelled")
	p.wantNoGrant("a cancelled notification is granted")
	refused(waits.ID, "again")
	n := p.accept(nil)
	g := p.grant()
	refused(n.ID, "while it is being sent")
	p.settle(g, wasDelivered)
	refused(n.ID, "after its end")
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

// replacedInFlight: a notification that fails after a newer one with its collapse key was accepted is not tried again.
func replacedInFlight(p *probe) {
	keyed := func(n *notification.Notification) { n.CollapseKey = "score" }
	first := p.accept(keyed)
	older := p.grant()
	second := p.accept(keyed)
	newer := p.grant()
	if newer.Notification.ID != second.ID {
		p.Fatalf("%s is granted", newer.Notification.ID)
	}
	p.settle(newer, wasDelivered)
	if s := p.settle(older, wasLost); s.Stale {
		p.Errorf("settled: %+v", s)
	}
	p.repairUntil("the first is replaced", p.becomes(first.ID, notification.StatusReplaced))
	p.want(first.ID, notification.StatusReplaced, 1, "collapse_key")
	p.want(second.ID, notification.StatusDelivered, 1, "")
}

// dropped: what is due in quiet hours that drop ends then, and says so; what is exempt goes.
func dropped(p *probe) {
	var due []*notification.Notification
	for range 3 {
		due = append(due, p.accept(func(n *notification.Notification) { n.Category = "dropping" }))
	}
	exempt := p.accept(func(n *notification.Notification) {
		n.Category, n.Priority = "dropping", notification.PriorityCritical
	})
	g := p.grant()
	if g.Notification.ID != exempt.ID {
		p.Fatalf("granted %s, want the critical %s", g.Notification.ID, exempt.ID)
	}
	p.settle(g, wasDelivered)
	p.wantNoGrant("in quiet hours that drop")
	for _, n := range due {
		p.repairUntil("it ends", p.becomes(n.ID, notification.StatusExpired))
		v := p.want(n.ID, notification.StatusExpired, 0, notification.ReasonQuietHours)
		if !strings.HasSuffix(v.Detail, "and end it: then: drop") {
			p.Errorf("the detail of %s is %q", n.ID, v.Detail)
		}
	}
	p.want(exempt.ID, notification.StatusDelivered, 1, "")
}

// overflows: where two wait, a ladder does what it says with more, of which events tell; what it ends says so, before
// and after the background work, and what it refuses is unknown.
func overflows(p *probe) {
	if err := p.Want(p.Context(), []string{events.Overflow}); err != nil {
		p.Fatal(err)
	}
	told := map[string]string{}
	const queued, expired, replaced = notification.StatusQueued, notification.StatusExpired, notification.StatusReplaced
	var all []*notification.Notification
	var want []notification.Status
	for action, ends := range map[notification.OverflowAction][]notification.Status{
		notification.OverflowDropNew:    {queued, queued, expired, expired},
		notification.OverflowDropOldest: {expired, expired, queued, queued},
		notification.OverflowReplace:    {replaced, replaced, queued, queued},
		notification.OverflowRefuse:     {queued, queued, "", ""},
		notification.OverflowDigest:     {queued, queued, queued, queued},
	} {
		for i, end := range ends {
			n := p.notification(func(n *notification.Notification) { n.Category = "overflow-" + string(action) })
			a := p.acceptAll(n)[0]
			_, refused := errors.AsType[*notification.OverflowError](a.Err)
			if refused != (end == "") || n.Dropped != (action == notification.OverflowDropNew && i > 1) {
				p.Fatalf("%s: %d was accepted as %+v", action, i, a)
			}
			all, want = append(all, n), append(want, end)
			if end.Ended() || action == notification.OverflowDigest && i == 2 {
				told[n.ID+" overflow"] = string(action)
			}
		}
	}
	for round := range 2 {
		for i, n := range all {
			if want[i] == "" {
				if _, err := p.View(p.Context(), n.ID); !errors.Is(err, notification.ErrNotFound) {
					p.Errorf("%s was refused, and is known: %v", n.ID, err)
				}
				continue
			}
			v := p.want(n.ID, want[i], 0, "")
			if !want[i].Ended() {
				continue
			}
			repeat := *n
			first := p.acceptAll(&repeat)[0].First
			if first == nil || round > 0 && first.Dropped != (want[i] == expired) {
				p.Errorf("the repeat of %s, which is %s, got %+v", n.ID, want[i], first)
			}
			rung := v.Timeline[len(v.Timeline)-2]
			_, action, _ := strings.Cut(n.Category, "-")
			if v.Reason != notification.ReasonOverflow || rung.Kind != notification.KindOverflow ||
				rung.Detail != v.Detail || v.Detail != "more than 2 waited in its category: "+action {
				p.Errorf("%s of %s: %s, %s; %+v", n.ID, n.Category, v.Reason, v.Detail, v.Timeline)
			}
		}
		if err := p.Repair(p.Context()); err != nil {
			p.Fatal(err)
		}
	}
	p.wantEvents(told)
}

// overflowsAtOnce: however many come at once, exactly as many stay as the ladder says.
func overflowsAtOnce(p *probe) {
	const callers = 1000
	var all []*notification.Notification
	for range callers {
		all = append(all, p.notification(func(n *notification.Notification) { n.Category = "overflow-drop_new" }))
	}
	var accepting errgroup.Group
	accepting.SetLimit(100)
	for _, n := range all {
		accepting.Go(func() error {
			_, err := p.Accept(p.Context(), []*notification.Notification{n})
			return err
		})
	}
	if err := accepting.Wait(); err != nil {
		p.Fatal(err)
	}
	stay := 0
	for _, n := range all {
		if !n.Dropped && p.lookUp(n.ID).Status.Waiting() {
			stay++
		}
	}
	if stay != 2 {
		p.Errorf("%d of %d stay, want 2", stay, callers)
	}
}

// leaseEnds: when a lease ends, the notification is granted again, and the first worker's late result is refused.
func leaseEnds(p *probe) {
	n := p.accept(nil)
	stale := p.crash()
	p.repairUntil("the lease ends", p.becomes(n.ID, notification.StatusQueued))
	g := p.grant()
	if g.Notification.ID != n.ID || g.Attempt != 2 || g.Failures != 0 {
		p.Fatalf("granted anew: %+v", g)
	}
	if s := p.settle(stale, wasDelivered); !s.Stale {
		p.Error("the first worker's late result was written")
	}
	p.want(n.ID, notification.StatusSending, 2, "")
	p.settle(g, wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 2, "")
}

// crashLoop: a notification whose workers crash MaxCrashes times ends as failed.
func crashLoop(p *probe) {
	n := p.accept(nil)
	for range MaxCrashes {
		p.crash()
		p.repairUntil("the lease ends", func() bool {
			return p.becomes(n.ID, notification.StatusQueued)() || p.becomes(n.ID, notification.StatusFailed)()
		})
	}
	p.wantNoGrant("it is granted after too many crashes")
	p.want(n.ID, notification.StatusFailed, MaxCrashes, "crash_loop")
}

// unknown: an id that was never accepted is not found.
func unknown(p *probe) {
	if _, err := p.View(p.Context(), "nobody"); !errors.Is(err, notification.ErrNotFound) {
		p.Errorf("view: %v", err)
	}
	if err := p.Cancel(p.Context(), "nobody"); !errors.Is(err, notification.ErrNotFound) {
		p.Errorf("cancel: %v", err)
	}
}
