package mailbox_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Whatever happens in whatever order (ticks early, late, lost; workers that die; cancellations, retries, expiries), no
// window is ever overfull, the counts are exact after every step, everything ends exactly once, and nothing is left.
func TestAnyHistoryKeepsThePromises(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *redis.Client{"Redis": redistest.Client, "Miniredis": redistest.Mini} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			rapid.Check(t, func(r *rapid.T) { playHistory(t, r, client) })
		})
	}
}

func playHistory(t *testing.T, r *rapid.T, client *redis.Client) {
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		r.Fatalf("empty the database: %v", err)
	}
	rules := []throttle.Rule{
		{Max: rapid.IntRange(1, 4).Draw(r, "max"), Per: time.Duration(rapid.IntRange(1, 40).Draw(r, "per")) * 100 * time.Millisecond},
		{Max: 1, Per: time.Duration(rapid.IntRange(1, 900).Draw(r, "gap")) * time.Millisecond, Kind: throttle.KindGap},
	}
	limit := []throttle.Rule{{Max: rapid.IntRange(2, 8).Draw(r, "cap"), Per: 5 * time.Second, Kind: throttle.KindCap}}
	w := newWorld(t, r, client, mailbox.Terms{Plan: throttle.Plan{Rules: rules, Cap: limit}})
	h := &history{
		world: w, r: r, admitted: map[string][]*dispatch.Grant{}, collapsing: map[string]string{}, newest: map[string]time.Time{},
	}
	steps := []func(){h.put, h.put, h.pull, h.pull, h.pull, h.settleOne, h.settleOne, h.pass, h.lose, h.cancel, h.crash, h.lapse}
	for range rapid.IntRange(1, 60).Draw(r, "steps") {
		steps[rapid.IntRange(0, len(steps)-1).Draw(r, "step")]()
		h.check()
	}
	h.finish(rules, limit)
}

// history is a random life of a few mailboxes.
type history struct {
	*world
	r *rapid.T
	// ids accepted, and the grants not taken back, by user.
	ids      []string
	admitted map[string][]*dispatch.Grant
	// collapsing tells the user and category of what has the collapse key, newest the latest arrival of each; looked is how
	// many of the grants in flight were looked at when they were made.
	collapsing map[string]string
	newest     map[string]time.Time
	looked     int
}

func (h *history) put() {
	users, categories := []string{"ada", "ben"}, []string{"chat", "news"}
	e := mailbox.Entry{
		UserID:   users[rapid.IntRange(0, 1).Draw(h.r, "user")],
		Category: categories[rapid.IntRange(0, 1).Draw(h.r, "category")],
		Priority: notification.Priority(rapid.IntRange(1, 4).Draw(h.r, "priority")),
	}
	switch rapid.IntRange(0, 9).Draw(h.r, "kind") {
	case 0:
		e.SendAt = h.now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(h.r, "ahead")) * time.Millisecond)
	case 1:
		e.ExpiresAt = h.now.Add(time.Duration(rapid.IntRange(1, 8000).Draw(h.r, "life")) * time.Millisecond)
	case 2, 3, 4:
		e.CollapseKey = "same"
		if rapid.IntRange(0, 3).Draw(h.r, "late") == 0 {
			// No two arrive at the same µs: what comes now has whole ms, and few of them.
			e.Arrival = h.now.Add(-time.Duration(rapid.IntRange(1, 3000).Draw(h.r, "arrived"))*time.Millisecond - time.Duration(len(h.ids)+100)*time.Microsecond)
		}
	}
	id := h.world.put(e)
	h.ids = append(h.ids, id)
	if e.CollapseKey != "" {
		of := e.UserID + "/" + e.Category
		h.collapsing[id] = of
		if at := h.state(id).AcceptedAt; at.After(h.newest[of]) {
			h.newest[of] = at
		}
	}
}

// neverOlder fails when a grant is of something older than what has been accepted with the same collapse key.
func (h *history) neverOlder() {
	h.r.Helper()
	for _, g := range h.grants[h.looked:] {
		id := g.Notification.ID
		if of, keyed := h.collapsing[id]; keyed && h.state(id).AcceptedAt.Before(h.newest[of]) {
			h.r.Fatalf("%s was granted, but a newer one with its collapse key has been accepted", id)
		}
	}
	h.looked = len(h.grants)
}

// pull lets the next tick come: up to 1.2 s early, or late.
func (h *history) pull() {
	tick, at, found := h.next()
	if !found {
		return
	}
	if at = at.Add(-time.Duration(rapid.IntRange(-300, 1200).Draw(h.r, "early")) * time.Millisecond); at.After(h.now) {
		h.advance(at.Sub(h.now))
	}
	h.ask(tick, rapid.Bool().Draw(h.r, "pulled"))
	h.neverOlder()
}

func (h *history) settleOne() {
	if len(h.grants) == 0 {
		return
	}
	g := h.grants[0]
	o := []dispatch.Outcome{
		delivered,
		{Fate: dispatch.Failed, Reason: "permanent"},
		{Fate: dispatch.Retry, Reason: "transient", Failure: true, RetryAfter: time.Duration(rapid.IntRange(1, 3000).Draw(h.r, "backoff")) * time.Millisecond},
		{Fate: dispatch.Returned, Reason: "late", Refund: true},
		{Fate: dispatch.Retry, Reason: heldReason, Refund: true, Untried: true, RetryAfter: time.Second},
	}[rapid.IntRange(0, 4).Draw(h.r, "fate")]
	stale := h.settle(o).Stale
	h.looked = len(h.grants)
	switch {
	case o.Fate == dispatch.Returned && !stale:
		h.ticks[g.Tick] = h.now
	case o.Refund && !stale: // its slot is free again
	default:
		h.admitted[g.UserID] = append(h.admitted[g.UserID], g)
	}
}

func (h *history) pass() {
	h.advance(time.Duration(rapid.IntRange(1, 2000).Draw(h.r, "pass")) * time.Millisecond)
}

// lose drops a tick, as a killed worker or an unreachable queue would.
func (h *history) lose() {
	if tick, _, found := h.next(); found {
		delete(h.ticks, tick)
	}
}

func (h *history) cancel() {
	if len(h.ids) > 0 {
		_ = h.store.Cancel(h.test.Context(), rapid.SampledFrom(h.ids).Draw(h.r, "cancelled")) // it may have ended
	}
}

// crash forgets what is in flight; the leases end, and the slots stay counted.
func (h *history) crash() {
	for _, g := range h.grants {
		h.admitted[g.UserID] = append(h.admitted[g.UserID], g)
	}
	h.grants, h.looked = nil, 0
	h.advance(lease + grace + time.Second)
	h.sweep()
}

// lapse lets the leases end of workers that live: their results come late.
func (h *history) lapse() {
	h.advance(lease + time.Second)
	h.sweepAfterGap()
	h.advance(time.Duration(rapid.IntRange(1, 6000).Draw(h.r, "truce")) * time.Millisecond)
	h.sweep()
}

// heldReason is that of a notification which waits for its provider.
const heldReason = "throttled: provider_budget"

// check compares the counts with what every single notification says of itself.
func (h *history) check() {
	h.r.Helper()
	seen, held := map[notification.Status]int64{}, int64(0)
	for _, id := range h.ids {
		state := h.state(id)
		seen[state.Status]++
		if state.Status == notification.StatusRetrying && state.Reason == heldReason {
			held++
		}
	}
	total := h.total()
	for status, count := range map[notification.Status]int64{
		notification.StatusQueued: total.Queued, notification.StatusDeferred: total.Deferred,
		notification.StatusScheduled: total.Scheduled, notification.StatusRetrying: total.Retrying,
		notification.StatusSending: total.Sending, notification.StatusDelivered: total.Delivered,
		notification.StatusFailed: total.Failed, notification.StatusExpired: total.Expired,
		notification.StatusCancelled: total.Cancelled, notification.StatusReplaced: total.Replaced,
	} {
		if seen[status] != count {
			h.r.Fatalf("%d notifications are %s, the counts say %d: %+v", seen[status], status, count, total)
		}
	}
	if total.Held != held || total.Capped < 0 || total.Capped > total.Deferred {
		h.r.Fatalf("%d wait for their provider, the counts say %+v", held, total)
	}
	if total.Accepted != int64(len(h.ids)) {
		h.r.Fatalf("%d accepted, the counts say %d", len(h.ids), total.Accepted)
	}
}

// finish lets everything end, with the sweeper's help, and looks at the whole.
func (h *history) finish(rules, limit []throttle.Rule) {
	h.r.Helper()
	for range 200 {
		for len(h.grants) > 0 {
			g := h.grants[0]
			h.settle(delivered)
			h.looked = len(h.grants)
			h.admitted[g.UserID] = append(h.admitted[g.UserID], g)
		}
		tick, at, found := h.next()
		if !found {
			if total := h.total(); total.Queued+total.Deferred+total.Scheduled+total.Retrying+total.Sending == 0 {
				break
			}
			h.advance(lease + grace + time.Second)
			h.sweep()
			continue
		}
		if at.After(h.now) {
			h.advance(at.Sub(h.now))
		}
		h.ask(tick, true)
		h.neverOlder()
	}
	h.check()
	for _, id := range h.ids {
		if s := h.state(id); !s.Status.Ended() {
			h.r.Fatalf("%s never ended: it is %s", id, s.Status)
		}
	}
	if left := h.leftovers(); len(left) > 0 {
		h.r.Fatalf("keys left: %v", left)
	}
	for user, grants := range h.admitted {
		byCategory := map[string][]*dispatch.Grant{}
		for _, g := range grants {
			byCategory[g.Category] = append(byCategory[g.Category], g)
		}
		for category, grants := range byCategory {
			if n := violations(grants, rules...); n > 0 {
				h.r.Fatalf("%s/%s: %d violations of %v", user, category, n, rules)
			}
		}
		if n := violations(grants, limit...); n > 0 {
			h.r.Fatalf("%s: %d violations of the cap", user, n)
		}
	}
}
