package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

var (
	wasDelivered = dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}
	wasLost      = dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", Failure: true, RetryAfter: 50 * time.Millisecond,
	}
)

func acceptedOnce(p *probe) {
	n := p.accept(nil)
	first := p.want(n.ID, notification.StatusQueued, 0, "")
	again, err := p.Accept(p.Context(), []*notification.Notification{n})
	if err != nil || !again[0].Known || again[0].At.Sub(first.CreatedAt).Abs() > time.Second {
		p.Errorf("accepted again: %+v, %v", again, err)
	}
	other := *n
	other.UserID = "somebody whose partition is another, or not"
	foreign, err := p.Accept(p.Context(), []*notification.Notification{&other})
	if err != nil || !foreign[0].Known {
		p.Errorf("the id for another user: %+v, %v", foreign, err)
	}
	if v := p.want(n.ID, notification.StatusQueued, 0, ""); v.UserID != "ada" {
		p.Errorf("it belongs to %s now", v.UserID)
	}
}

func acceptedTwiceInOneBatch(p *probe) {
	n := p.notification(nil)
	accepted, err := p.Accept(p.Context(), []*notification.Notification{n, n})
	if err != nil || accepted[0].Known || !accepted[1].Known {
		p.Fatalf("%+v, %v", accepted, err)
	}
	p.settle(p.grant(), wasDelivered)
	p.wantNoGrant("it is given out twice")
}

func contentComesBack(p *probe) {
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	n := p.accept(func(n *notification.Notification) {
		n.Channel, n.To, n.Title, n.Body = notification.ChannelWebhook, "https://example.com/ü?a=1", "ti\"tle",
			"bo\ndy\u2028 'x' $1"
		n.Data, n.Priority, n.ExpiresAt, n.CollapseKey = []byte(`{"b":[1,2.50],"a":"\u0000 \" ü"}`),
			notification.PriorityHigh, at, "key: 'x'"
		n.Override = []byte(`{"headers":{"x":[1,null,"ü"]}}`)
		n.UserID = "user:with {strange} 'letters' ü"
	})
	g := p.grant()
	n.CreatedAt = g.Notification.CreatedAt
	if diff := cmp.Diff(n, g.Notification); diff != "" {
		p.Errorf("what is delivered differs (accepted -, granted +):\n%s", diff)
	}
	v := p.want(n.ID, notification.StatusSending, 1, "")
	if diff := cmp.Diff(*n, v.Notification); diff != "" {
		p.Errorf("what is shown differs (accepted -, shown +):\n%s", diff)
	}
}

func delivered(p *probe) {
	n := p.accept(nil)
	g := p.grant()
	if g.Notification.ID != n.ID || g.Attempt != 1 || g.Failures != 0 || g.AdmittedAt.IsZero() ||
		g.Backlog != dispatch.BacklogOf(n.UserID, n.Category, Partitions) {
		p.Fatalf("granted %+v", g)
	}
	p.want(n.ID, notification.StatusSending, 1, "")
	p.wantNoGrant("it is given out twice")
	if s := p.settle(g, wasDelivered); s != (dispatch.Settlement{}) {
		p.Errorf("settled: %+v", s)
	}
	v := p.want(n.ID, notification.StatusDelivered, 1, "delivered")
	if len(v.Timeline) < 3 || v.Timeline[0].Kind != "accepted" || v.Timeline[len(v.Timeline)-1].Kind != "delivered" {
		p.Errorf("timeline %+v", v.Timeline)
	}
}

func sameRound(p *probe) {
	n := p.accept(nil)
	pull := dispatch.TakeRequest{Partition: dispatch.PartitionOf(n.UserID, Partitions), ID: "pull", Pull: 8}
	first, second := p.serve(pull), p.serve(pull)
	if diff := cmp.Diff(first.Pulled, second.Pulled); diff != "" || len(first.Pulled) != 1 {
		p.Fatalf("asked again the wake-ups differ (first -, second +):\n%s", diff)
	}
	take := dispatch.TakeRequest{
		Partition: pull.Partition, ID: "the answer was lost", Wakeups: first.Pulled, Capacity: 8,
	}
	g, again := p.serve(take).Results[0].Grants, p.serve(take).Results[0].Grants
	if len(g) != 1 || len(again) != 1 {
		p.Fatalf("granted %v, asked again %v", g, again)
	}
	again[0].StartIn = g[0].StartIn
	if diff := cmp.Diff(g[0], again[0]); diff != "" {
		p.Errorf("asked again the grant differs (first -, second +):\n%s", diff)
	}
	for _, grant := range []*dispatch.Grant{g[0], again[0]} {
		if ok, err := p.Claim(p.Context(), grant); !ok || err != nil {
			p.Fatalf("claim: %t, %v", ok, err)
		}
	}
	p.settle(again[0], wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

func settledTwice(p *probe) {
	n := p.accept(nil)
	g := p.grant()
	for range 2 {
		if s := p.settle(g, wasDelivered); s.Stale {
			p.Error("a repeated settlement is stale")
		}
	}
	v := p.want(n.ID, notification.StatusDelivered, 1, "")
	ends := 0
	for _, event := range v.Timeline {
		if event.Kind == "delivered" {
			ends++
		}
	}
	if ends != 1 {
		p.Errorf("it ended %d times: %+v", ends, v.Timeline)
	}
}

func throttled(p *probe) {
	slow := func(n *notification.Notification) { n.Category = "slow" }
	first := p.accept(slow)
	second := p.accept(slow)
	g := p.grant()
	if g.Notification.ID != first.ID {
		p.Fatalf("%s goes first", g.Notification.ID)
	}
	p.settle(g, wasDelivered)
	p.wantNoGrant("the second goes too")
	v := p.want(second.ID, notification.StatusDeferred, 0, "limit 1/1h")
	if v.Deferrals != 1 || time.Until(v.DeliverAt) < 59*time.Minute {
		p.Errorf("deferred %d times, expected at %s", v.Deferrals, v.DeliverAt)
	}
	third := p.accept(slow)
	if v := p.want(third.ID, notification.StatusDeferred, 0, "limit 1/1h"); v.Ahead != 1 {
		p.Errorf("%d go before the third, want 1", v.Ahead)
	}
}

func retried(p *probe) {
	n := p.accept(nil)
	p.settle(p.grant(), wasLost)
	p.want(n.ID, notification.StatusRetrying, 1, "transient: 503")
	g := p.grant()
	if g.Attempt != 2 || g.Failures != 1 {
		p.Errorf("the second attempt is %d, after %d failures", g.Attempt, g.Failures)
	}
	p.settle(g, wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 2, "")
}

func returned(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.Category = "slow" })
	p.settle(p.grant(), dispatch.Outcome{Disposition: dispatch.Returned, Reason: "late", Refund: true})
	p.want(n.ID, notification.StatusQueued, 0, "")
	g := p.grant() // its slot was given back
	if g.Attempt != 1 || g.Failures != 0 {
		p.Errorf("attempt %d after %d failures", g.Attempt, g.Failures)
	}
}

// held: what waits for its provider is tried again, and was no attempt.
func held(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.Category = "slow" })
	outcome := dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "throttled: provider_budget", RetryAfter: 50 * time.Millisecond, Refund: true,
		Untried: true,
	}
	p.settle(p.grant(), outcome)
	p.want(n.ID, notification.StatusRetrying, 0, outcome.Reason)
	g := p.grant() // its slot was given back
	if g.Attempt != 1 || g.Failures != 0 {
		p.Errorf("attempt %d after %d failures", g.Attempt, g.Failures)
	}
	p.settle(g, wasDelivered)
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

// throttledByItsProvider: it comes back behind what waits by then, and may end as having waited too long.
func throttledByItsProvider(p *probe) {
	first := p.accept(nil)
	g := p.grant()
	second := p.accept(nil)
	p.settle(g, dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "throttled: 429", RetryAfter: 50 * time.Millisecond,
		Behind: true,
	})
	p.want(first.ID, notification.StatusRetrying, 1, "throttled: 429")
	g = p.grant()
	if g.Notification.ID != second.ID {
		p.Errorf("%s comes before %s, which was not tried yet", g.Notification.ID, second.ID)
	}
	p.settle(g, wasDelivered)
	g = p.grant()
	if g.Notification.ID != first.ID || g.Attempt != 2 || g.Failures != 0 {
		p.Errorf("then comes %s: attempt %d after %d failures", g.Notification.ID, g.Attempt, g.Failures)
	}
	p.settle(g, dispatch.Outcome{Disposition: dispatch.Expired, Reason: "max_defer, last throttled: 429"})
	p.want(first.ID, notification.StatusExpired, 2, "max_defer, last throttled: 429")
}

func failed(p *probe) {
	n := p.accept(nil)
	p.settle(p.grant(), dispatch.Outcome{Disposition: dispatch.Failed, Reason: "target_gone: 410", Failure: true})
	p.want(n.ID, notification.StatusFailed, 1, "target_gone: 410")
	p.wantNoGrant("it comes again")
}

func cancelled(p *probe) {
	n := p.accept(nil)
	if err := p.Cancel(p.Context(), n.ID); err != nil {
		p.Fatal(err)
	}
	p.want(n.ID, notification.StatusCancelled, 0, "cancelled")
	p.wantNoGrant("a cancelled one is given out")
	if err := p.Cancel(p.Context(), n.ID); !errors.Is(err, notification.ErrNotWaiting) {
		p.Errorf("cancelled again: %v", err)
	}
}

func notCancelled(p *probe) {
	n := p.accept(nil)
	g := p.grant()
	if err := p.Cancel(p.Context(), n.ID); !errors.Is(err, notification.ErrNotWaiting) {
		p.Errorf("cancelled while it is being sent: %v", err)
	}
	p.settle(g, wasDelivered)
	if err := p.Cancel(p.Context(), n.ID); !errors.Is(err, notification.ErrNotWaiting) {
		p.Errorf("cancelled after its end: %v", err)
	}
	p.want(n.ID, notification.StatusDelivered, 1, "")
}

func replaced(p *probe) {
	keyed := func(n *notification.Notification) { n.CollapseKey = "score" }
	first := p.accept(keyed)
	second := p.accept(keyed)
	p.repairUntil("the first is replaced", p.becomes(first.ID, notification.StatusReplaced))
	p.want(first.ID, notification.StatusReplaced, 0, "collapse_key")
	if g := p.grant(); g.Notification.ID != second.ID {
		p.Errorf("%s is given out", g.Notification.ID)
	}
}

// What fails while a newer one with its collapse key waits, or has gone, is not tried again.
func replacedInFlight(p *probe) {
	keyed := func(n *notification.Notification) { n.CollapseKey = "score" }
	first := p.accept(keyed)
	older := p.grant()
	second := p.accept(keyed)
	newer := p.grant()
	if newer.Notification.ID != second.ID {
		p.Fatalf("%s is given out", newer.Notification.ID)
	}
	p.settle(newer, wasDelivered)
	if s := p.settle(older, wasLost); s.Stale {
		p.Errorf("settled: %+v", s)
	}
	p.repairUntil("the first is replaced", p.becomes(first.ID, notification.StatusReplaced))
	p.want(first.ID, notification.StatusReplaced, 1, "collapse_key")
	p.want(second.ID, notification.StatusDelivered, 1, "")
}

func expires(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.ExpiresAt = time.Now().Add(100 * time.Millisecond) })
	p.repairUntil("it expires", p.becomes(n.ID, notification.StatusExpired))
	p.want(n.ID, notification.StatusExpired, 0, "expires_at")
}

func retryTooLate(p *probe) {
	n := p.accept(func(n *notification.Notification) { n.ExpiresAt = time.Now().Add(time.Minute) })
	late := wasLost
	late.RetryAfter = time.Hour
	if s := p.settle(p.grant(), late); s.Stale {
		p.Errorf("settled: %+v", s)
	}
	p.want(n.ID, notification.StatusExpired, 1, "expires_at")
}

func leaseEnds(p *probe) {
	n := p.accept(nil)
	stale := p.grant()
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

func crashLoop(p *probe) {
	n := p.accept(nil)
	for range MaxCrashes {
		p.grant()
		p.repairUntil("the lease ends", func() bool {
			return p.becomes(n.ID, notification.StatusQueued)() || p.becomes(n.ID, notification.StatusFailed)()
		})
	}
	p.wantNoGrant("it is granted after too many crashes")
	p.want(n.ID, notification.StatusFailed, MaxCrashes, "crash_loop")
}

func keys(p *probe) {
	reserve := func(key, fingerprint, id string) intake.Reservation {
		p.Helper()
		r, err := p.Reserve(p.Context(), key, fingerprint, id, time.Hour)
		if err != nil {
			p.Fatalf("reserve: %v", err)
		}
		return r
	}
	for _, step := range []struct {
		fingerprint, id string
		want            intake.Reservation
	}{
		{"body", "first", intake.Reservation{Claim: intake.ClaimNew, ID: "first"}},
		{"body", "second", intake.Reservation{Claim: intake.ClaimBusy, ID: "first"}},
		{"other", "third", intake.Reservation{Claim: intake.ClaimOther, ID: "first"}},
	} {
		if got := reserve("key", step.fingerprint, step.id); got != step.want {
			p.Errorf("%s: %+v, want %+v", step.id, got, step.want)
		}
	}
	if err := p.Commit(p.Context(), "key"); err != nil {
		p.Fatal(err)
	}
	if got := reserve("key", "body", "fourth"); got != (intake.Reservation{Claim: intake.ClaimDone, ID: "first"}) {
		p.Errorf("after the commit: %+v", got)
	}
	if got := reserve("key", "other", "fifth"); got.Claim != intake.ClaimOther {
		p.Errorf("another body after the commit: %+v", got)
	}
	if got := reserve("another key", "other", "sixth"); got != (intake.Reservation{
		Claim: intake.ClaimNew, ID: "sixth",
	}) {
		p.Errorf("another key: %+v", got)
	}
}

func unknown(p *probe) {
	if _, err := p.View(p.Context(), "nobody"); !errors.Is(err, notification.ErrNotFound) {
		p.Errorf("view: %v", err)
	}
	if err := p.Cancel(p.Context(), "nobody"); !errors.Is(err, notification.ErrNotFound) {
		p.Errorf("cancel: %v", err)
	}
}
