package storetest

import (
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// repliesAreKept: what the provider replied explains a retry and an end, and is in the timeline once for each attempt.
func repliesAreKept(p *probe) {
	busy := wasLost
	busy.Reply = "busy: come back"
	n := p.accept(nil)
	p.settle(p.grant(), busy)
	p.wantDetail(n.ID, notification.StatusRetrying, "busy: come back", "busy: come back")
	p.settle(p.grant(), wasUntried)
	if v := p.wantDetail(n.ID, notification.StatusRetrying, "", "busy: come back"); !v.Held {
		p.Error("one that waits for its provider is not held")
	}
	p.settle(p.grant(), dispatch.Outcome{
		Disposition: dispatch.Failed, Reason: "permanent: 400", Reply: "unknown token", Failure: true,
	})
	p.wantDetail(n.ID, notification.StatusFailed, "unknown token", "busy: come back", "unknown token")

	// What explained an earlier attempt does not explain an end without a reply.
	for status, end := range map[notification.Status]dispatch.Outcome{
		notification.StatusDelivered: wasDelivered,
		notification.StatusFailed:    {Disposition: dispatch.Failed, Reason: "permanent: connection", Failure: true},
	} {
		n = p.accept(nil)
		p.settle(p.grant(), busy)
		p.settle(p.grant(), end)
		p.wantDetail(n.ID, status, "", "busy: come back")
	}
}

// attemptsAreKept: a failed attempt is followed by another. Each is in the timeline once, with its number, its outcome
// and how long it took. What waited for its provider was no attempt.
func attemptsAreKept(p *probe) {
	n := p.accept(nil)
	again, end := wasLost, wasDelivered
	again.Took, end.Took = 5*time.Millisecond, 5*time.Millisecond
	p.settle(p.grant(), again)
	p.want(n.ID, notification.StatusRetrying, 1, "transient: 503")
	p.settle(p.grant(), wasUntried)
	p.wantAttempts(n.ID, "attempt 1: retrying, transient: 503")
	p.settle(p.grant(), again)
	g := p.grant()
	if g.Attempt != 3 || g.Failures != 2 {
		p.Errorf("the third attempt is %d, after %d failures", g.Attempt, g.Failures)
	}
	p.wantAttempts(n.ID, "attempt 1: retrying, transient: 503", "attempt 2: retrying, transient: 503",
		"attempt 3: under way")
	p.settle(g, end)
	p.want(n.ID, notification.StatusDelivered, 3, "")
	p.wantAttempts(n.ID, "attempt 1: retrying, transient: 503", "attempt 2: retrying, transient: 503",
		"attempt 3: delivered")

	// One whose retry would come too late ends, and keeps the attempt that failed.
	n = p.accept(func(n *notification.Notification) { n.ExpiresAt = time.Now().Add(time.Hour) })
	again.RetryAfter = 2 * time.Hour
	if s := p.settle(p.grant(), again); s.Stale {
		p.Errorf("settled: %+v", s)
	}
	p.want(n.ID, notification.StatusExpired, 1, notification.ReasonExpired)
	p.wantAttempts(n.ID, "attempt 1: retrying, transient: 503")
}

// wantAttempts checks the attempts in a timeline: how each ended, and that each that ended took some time.
func (p *probe) wantAttempts(id string, want ...string) {
	p.Helper()
	v := p.lookUp(id)
	var got []string
	for _, e := range v.Timeline {
		if e.Attempt == nil {
			continue
		}
		if a := e.Attempt; a.Outcome != "" && (a.Took <= 0 || e.At.Before(v.CreatedAt)) {
			p.Errorf("attempt %d, admitted at %s, took %s", a.Number, e.At, a.Took)
		}
		said, _, _ := strings.Cut(e.Detail, ", after ")
		got = append(got, said)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("the attempts at %s differ (want -, got +):\n%s", id, diff)
	}
}

// wantDetail checks what explains a notification's reason, and the replies in its timeline.
func (p *probe) wantDetail(id string, status notification.Status, detail string, replies ...string,
) *notification.View {
	p.Helper()
	v := p.lookUp(id)
	var got []string
	for _, e := range v.Timeline {
		if e.Reply != "" {
			got = append(got, e.Reply)
		}
	}
	if v.Status != status || v.Detail != detail || strings.Join(got, "|") != strings.Join(replies, "|") {
		p.Errorf("%s is %s (%s), detail %q, replies %q; want %s, %q, %q", id, v.Status, v.Reason, v.Detail, got, status,
			detail, replies)
	}
	return v
}

// maxDeferSaysWhichSlot: one that expires because its slot would come too late says when that would have been.
func maxDeferSaysWhichSlot(p *probe) {
	var last string
	for range 26 { // in a day there are 24 slots, and one now
		last = p.accept(func(n *notification.Notification) { n.Category = "slow" }).ID
	}
	p.settle(p.grant(), wasDelivered)
	p.look()
	p.repairUntil("the last has expired", p.becomes(last, notification.StatusExpired))
	v := p.want(last, notification.StatusExpired, 0, notification.ReasonMaxDefer)
	at, found := strings.CutPrefix(v.Detail, "its slot would be ")
	at, rest, _ := strings.Cut(at, " ")
	slot, err := time.Parse(time.RFC3339Nano, at)
	if after := slot.Sub(v.CreatedAt); !found || err != nil || rest != "or later, later than max_defer 24h" ||
		after < 24*time.Hour || after > 26*time.Hour {
		p.Errorf("the detail is %q, %s after it was accepted", v.Detail, after)
	}
}
