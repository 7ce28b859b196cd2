package mailbox_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

var oncePer3s = mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 3 * time.Second}}}}

var delivered = dispatch.Outcome{Fate: dispatch.Delivered, Reason: "delivered"}

func setup(t *testing.T, terms mailbox.Terms) *world {
	t.Helper()
	return newWorld(t, t, redistest.Client(t), terms)
}

func tickOf(id string) dispatch.Tick {
	return dispatch.Tick{ID: id, Mailbox: dispatch.MailboxOf("ada", "chat", 2)}
}

// rush makes n notifications of one user and pulls all their ticks.
func (w *world) rush(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.put(mailbox.Entry{})
	}
	for _, id := range ids {
		w.ask(tickOf(id), true)
	}
	return ids
}

func TestCrowdDrainsAtTheOptimumInOrderAndIsDeferredOnce(t *testing.T) {
	t.Parallel()
	rules := []throttle.Rule{{Max: 20, Per: time.Second}, {Max: 1, Per: 10 * time.Millisecond, Kind: throttle.KindGap}}
	w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: rules}})
	const n = 400
	for range n {
		w.put(mailbox.Entry{})
	}
	got := w.drain()
	if len(got) != n {
		t.Fatalf("%d delivered, want %d", len(got), n)
	}
	optimum := throttle.Project(throttle.MicrosOf(start), n, throttle.Log{Rules: rules})
	for i, g := range got {
		if want := "n" + strconv.Itoa(i+1); g.Notification.ID != want {
			t.Fatalf("delivery %d is %s, want %s", i, g.Notification.ID, want)
		}
		if late := throttle.MicrosOf(g.AdmittedAt).Sub(optimum[i]); late != 0 {
			t.Fatalf("delivery %d is admitted %s after the optimum", i, late)
		}
	}
	total := w.total()
	if w.pulls > 2*n || total.Deferrals > n-1 {
		t.Errorf("%d pulls and %d deferrals for %d, want at most %d and %d", w.pulls, total.Deferrals, n, 2*n, n-1)
	}
	if left := w.leftovers(); len(left) != 0 {
		t.Errorf("keys left after the drain: %v", left)
	}
}

func TestTakeAskedTwiceGivesTheSameGrant(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	own, other := w.put(mailbox.Entry{}), w.put(mailbox.Entry{})
	first := w.askAs(tickOf(own), true, "one")
	again := w.askAs(tickOf(own), true, "one")
	if first.Granted == nil || again.Granted == nil || first.Granted.ID != own || again.Granted.ID != own ||
		first.Granted.Generation != again.Granted.Generation || !first.Granted.At.Equal(again.Granted.At) {
		t.Fatalf("answers %+v and %+v", first.Granted, again.Granted)
	}
	// Another tick than its own runs the second: the answer is remembered all the same.
	w.askAs(tickOf(own), true, "two")
	if again := w.askAs(tickOf(own), true, "two"); again.Granted == nil || again.Granted.ID != other {
		t.Fatalf("the second answer for a foreign notification is %+v", again.Granted)
	}
	if total := w.total(); total.Attempts != 2 || total.Sending != 2 {
		t.Errorf("counts after two grants: %+v", total)
	}
}

func TestSettlementOfAnOldGenerationChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	id := w.put(mailbox.Entry{})
	w.ask(tickOf(id), true)
	w.advance(lease + time.Second)
	if repairs := w.sweep(); repairs.LeasesEnded != 1 {
		t.Fatalf("repairs %+v, want one lease", repairs)
	}
	again, _, _ := w.next()
	if answer := w.ask(again, true); answer.Granted == nil || answer.Granted.ID != id || answer.Granted.Attempt != 2 {
		t.Fatalf("granted again: %+v", answer)
	}
	if s := w.settle(delivered); !s.Stale {
		t.Errorf("the settlement after somebody else's grant was taken: %+v", s)
	}
	if s := w.state(id); s.Status != notification.StatusSending {
		t.Errorf("status %s", s.Status)
	}
	w.settle(delivered)
	if s := w.state(id); s.Status != notification.StatusDelivered {
		t.Errorf("status %s", s.Status)
	}
}

func TestSettledTwiceAnswersAsBefore(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	id := w.put(mailbox.Entry{})
	w.ask(tickOf(id), true)
	g := w.grants[0]
	retry := dispatch.Outcome{Fate: dispatch.Retry, RetryAfter: 7 * time.Second, Failure: true}
	for range 2 {
		s, err := w.store.Settle(t.Context(), g, retry)
		if err != nil || s.Stale || s.RetryIn != 7*time.Second {
			t.Fatalf("settlement %+v, %v", s, err)
		}
	}
	if total := w.total(); total.Retrying != 1 || total.Sending != 0 {
		t.Errorf("counts %+v", total)
	}
}

// What is deferred is put down to the rule that the head of its line waits for.
func TestDeferredForTheCap(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{
		{Max: 2, Per: time.Minute}, {Max: 3, Per: time.Hour, Kind: throttle.KindCap},
	}}})
	for range 5 {
		w.ask(tickOf(w.put(mailbox.Entry{})), true)
	}
	if total := w.total(); total.Deferred != 3 || total.Capped != 0 {
		t.Fatalf("behind the category's limit: %+v", total)
	}
	for range 2 {
		w.settle(delivered)
	}
	w.advance(time.Minute)
	for range 3 {
		tick, _, _ := w.next()
		w.ask(tick, true)
	}
	if total := w.total(); total.Deferred != 2 || total.Capped != 2 {
		t.Fatalf("behind the cap: %+v", total)
	}
	if crowds, exact, err := w.store.Crowds(t.Context(), 10); err != nil || !exact || len(crowds) != 1 || crowds[0] != (mailbox.Crowd{UserID: "ada", Category: "chat", Deferred: 2}) {
		t.Errorf("the crowds are %v (%t), %v", crowds, exact, err)
	}
	w.settle(delivered)
	w.drain()
	if total := w.total(); total.Deferred != 0 || total.Capped != 0 {
		t.Errorf("at the end: %+v", total)
	}
}

func TestThreeLeasesEndedIsACrashLoop(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	id := w.put(mailbox.Entry{})
	for range 3 {
		tick, _, found := w.next()
		if !found {
			t.Fatal("no tick for a notification whose worker died")
		}
		w.ask(tick, true)
		w.advance(lease + time.Second)
		w.sweep()
	}
	if s := w.state(id); s.Status != notification.StatusFailed || s.Reason != notification.ReasonCrashLoop || s.Attempts != 3 {
		t.Errorf("after three crashes: %s (%s), %d attempts", s.Status, s.Reason, s.Attempts)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(4)
	cancel := func(id string) error { return w.store.Cancel(t.Context(), id) }
	if err := cancel(ids[0]); !errors.Is(err, notification.ErrNotWaiting) {
		t.Errorf("cancel of one in flight: %v", err)
	}
	if err := cancel("nobody"); !errors.Is(err, notification.ErrNotFound) {
		t.Errorf("cancel of an unknown one: %v", err)
	}
	if err := cancel(ids[1]); err != nil {
		t.Fatalf("cancel of one deferred: %v", err)
	}
	if err := cancel(ids[1]); !errors.Is(err, notification.ErrNotWaiting) {
		t.Errorf("cancel again: %v", err)
	}
	w.settle(delivered)
	got := w.drain()
	if len(got) != 2 || got[0].Notification.ID != ids[2] || !got[0].AdmittedAt.Equal(start.Add(3*time.Second)) ||
		got[1].Notification.ID != ids[3] || !got[1].AdmittedAt.Equal(start.Add(6*time.Second)) {
		t.Errorf("the others did not move up: %+v", got)
	}
}

// Ticks wake a second early. One that is not needed any more is let go only when enough others come sooner: otherwise the
// first slots would stand empty.
func TestCancelledOnesLeaveNoHoleAlthoughTicksComeEarly(t *testing.T) {
	t.Parallel()
	gap := throttle.Rule{Max: 1, Per: 200 * time.Millisecond, Kind: throttle.KindGap}
	w := setup(t, mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{gap}}})
	ids := w.rush(60)
	w.settle(delivered)
	for i, id := range ids[1:] {
		if i%3 != 0 {
			if err := w.store.Cancel(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := w.drainEarly()
	if len(got) != 20 {
		t.Fatalf("%d delivered, want 20", len(got))
	}
	for i, g := range got {
		if want := start.Add(time.Duration(i+1) * gap.Per); !g.AdmittedAt.Equal(want) {
			t.Errorf("delivery %d is admitted %s after its slot", i, g.AdmittedAt.Sub(want))
		}
	}
}

func TestUrgentOnesGoFirst(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(3)
	w.settle(delivered)
	high := w.put(mailbox.Entry{Priority: notification.PriorityHigh})
	w.ask(tickOf(high), true)
	want := []string{high, ids[1], ids[2]}
	for i, g := range w.drain() {
		if g.Notification.ID != want[i] || !g.AdmittedAt.Equal(start.Add(time.Duration(i+1)*3*time.Second)) {
			t.Errorf("delivery %d is %s at %s", i, g.Notification.ID, g.AdmittedAt)
		}
	}
}

func TestBypassGoesAtOnceAndFillsTheWindow(t *testing.T) {
	t.Parallel()
	terms := oncePer3s
	terms.BypassFrom = int(notification.PriorityCritical)
	w := setup(t, terms)
	w.rush(2)
	w.settle(delivered)
	w.advance(time.Second)
	critical := w.put(mailbox.Entry{Priority: notification.PriorityCritical})
	if a := w.ask(tickOf(critical), true); a.Granted == nil || a.Granted.ID != critical || !a.Granted.At.Equal(w.now) {
		t.Fatalf("the critical one: %+v", a)
	}
	w.settle(delivered)
	if got := w.drain(); len(got) != 1 || !got[0].AdmittedAt.Equal(start.Add(4*time.Second)) {
		t.Errorf("the waiting one goes 3 s after the bypass: %+v", got)
	}
}

func TestMaxDeferEndsWhatWouldWaitLonger(t *testing.T) {
	t.Parallel()
	terms := oncePer3s
	terms.MaxDefer = 7 * time.Second
	w := setup(t, terms)
	ids := w.rush(5)
	for i, want := range []notification.Status{"sending", "deferred", "deferred", "expired", "expired"} {
		if s := w.state(ids[i]); s.Status != want {
			t.Errorf("notification %d is %s (%s), want %s", i, s.Status, s.Reason, want)
		}
	}
	if total := w.total(); total.Expired != 2 || total.Deferred != 2 {
		t.Errorf("counts %+v", total)
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(1)
	inLine := w.put(mailbox.Entry{ExpiresAt: start.Add(2 * time.Second)})
	w.ask(tickOf(inLine), true)
	w.advance(2 * time.Second)
	if repairs := w.sweep(); repairs.Expired != 1 {
		t.Fatalf("repairs %+v", repairs)
	}
	if s := w.state(inLine); s.Status != notification.StatusExpired || s.Reason != notification.ReasonExpired {
		t.Errorf("in line: %s (%s)", s.Status, s.Reason)
	}
	beforeRetry := w.put(mailbox.Entry{UserID: "ben", ExpiresAt: w.now.Add(5 * time.Second)})
	w.grants = nil
	w.ask(dispatch.Tick{ID: beforeRetry, Mailbox: dispatch.MailboxOf("ben", "chat", 2)}, true)
	w.settle(dispatch.Outcome{Fate: dispatch.Retry, RetryAfter: 5 * time.Second})
	if s := w.state(beforeRetry); s.Status != notification.StatusExpired {
		t.Errorf("one whose retry would come too late is %s", s.Status)
	}
}

func TestCollapseKeyReplacesWhatWaits(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(1)
	first := w.put(mailbox.Entry{CollapseKey: "score"})
	second := w.put(mailbox.Entry{CollapseKey: "score"})
	if s := w.state(first); s.Status != notification.StatusReplaced || s.Reason != notification.ReasonReplaced {
		t.Errorf("the first is %s (%s)", s.Status, s.Reason)
	}
	w.settle(delivered)
	w.advance(3 * time.Second)
	w.ask(tickOf(second), true) // in flight now
	third := w.put(mailbox.Entry{CollapseKey: "score"})
	if s := w.state(second); s.Status != notification.StatusSending {
		t.Errorf("one in flight was replaced: it is %s", s.Status)
	}
	if s := w.state(third); s.Status != notification.StatusQueued {
		t.Errorf("the third is %s", s.Status)
	}
}

func TestScheduledComesAtItsTimeNotBefore(t *testing.T) {
	t.Parallel()
	w := setup(t, mailbox.Terms{})
	id := w.put(mailbox.Entry{SendAt: start.Add(time.Hour)})
	if total := w.total(); total.Scheduled != 1 || total.Queued != 0 {
		t.Fatalf("counts %+v", total)
	}
	w.advance(time.Hour - time.Second)
	if a := w.ask(tickOf(id), true); a.Wait == nil || a.Wait.For != time.Second || a.Wait.Rule != "" {
		t.Fatalf("asked a second early: %+v", a)
	}
	if got := w.drain(); len(got) != 1 || !got[0].AdmittedAt.Equal(start.Add(time.Hour)) {
		t.Errorf("delivered %+v", got)
	}
}

func TestReturnedGrantKeepsPlaceAndSlot(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(2)
	w.settle(dispatch.Outcome{Fate: dispatch.Returned, Refund: true})
	if a := w.ask(tickOf(ids[0]), false); a.Granted == nil || a.Granted.ID != ids[0] || a.Granted.Attempt != 1 {
		t.Fatalf("after it was given back: %+v", a)
	}
}

// A slot granted ahead and given back must not have pushed the entry out of the log that the gap needs.
func TestRefundAheadKeepsTheGap(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(2)
	w.settle(delivered)
	w.advance(3*time.Second - 8*time.Millisecond)
	a := w.ask(tickOf(ids[1]), false)
	if a.Granted == nil || !a.Granted.At.Equal(start.Add(3*time.Second)) {
		t.Fatalf("8 ms before its slot: %+v", a)
	}
	w.settle(dispatch.Outcome{Fate: dispatch.Returned, Refund: true})
	if a := w.ask(tickOf(ids[1]), false); a.Granted == nil || !a.Granted.At.Equal(start.Add(3*time.Second)) {
		t.Errorf("asked again: %+v", a)
	}
}

func TestLostTicksAreReplaced(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]fakeTask{
		"Missing":             {},
		"ActiveWithoutLease":  {state: "active"},
		"Archived":            {state: "archived"},
		"PendingWithoutList":  {state: "pending", since: 5},
		"ListIsAnother":       {state: "pending", since: 5, oldest: 6},
		"ScheduledInNoSet":    {state: "scheduled"},
		"RetryInNoSet":        {state: "retry"},
		"ScheduledInTheOther": {state: "scheduled", set: "retry"},
		// The clock of the worker that scheduled it was far ahead.
		"ScheduledMuchLater": {state: "scheduled", set: "scheduled", at: 1 << 40},
		"RetryMuchLater":     {state: "retry", set: "retry", at: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, mailbox.Terms{})
			id := w.put(mailbox.Entry{})
			clear(w.ticks)
			w.fakeTask(id, task)
			w.advance(grace + time.Second)
			if repairs := w.sweep(); repairs.Woken != 1 || len(w.ticks) != 1 {
				t.Fatalf("repairs %+v, ticks %v", repairs, w.ticks)
			}
			w.noneScheduled(id)
			if got := w.drain(); len(got) != 1 {
				t.Errorf("%d delivered", len(got))
			}
		})
	}
}

// noneScheduled looks whether a task that was replaced still waits in asynq's schedule, where it would lie until its time.
func (w *world) noneScheduled(id string) {
	w.t.Helper()
	ctx, prefix := w.test.Context(), "asynq:{"+dispatch.LaneName(w.store.LaneOf("ada"))+"}:"
	state := w.client.HGet(ctx, prefix+"t:"+id, "state").Val()
	if n := w.client.Exists(ctx, prefix+"scheduled", prefix+"retry").Val(); n != 0 || state == "scheduled" || state == "retry" {
		w.t.Fatalf("asynq keeps the task: %d schedules, state %q", n, state)
	}
}

func TestLivingTicksAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]fakeTask{
		"PendingAndTheOldest": {state: "pending", since: 5, oldest: 5},
		"PendingAmongOthers":  {state: "pending", since: 7, oldest: 6},
		"Scheduled":           {state: "scheduled", set: "scheduled"},
		"Retry":               {state: "retry", set: "retry"},
		"Active":              {state: "active", set: "lease", at: 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, mailbox.Terms{})
			id := w.put(mailbox.Entry{})
			w.fakeTask(id, task)
			w.advance(grace + time.Second)
			if repairs := w.sweep(); repairs.Woken != 0 || len(w.ticks) != 1 {
				t.Errorf("a tick that is in the queue was replaced: %+v", repairs)
			}
		})
	}
}

// fakeTask is what asynq would have of a task: its hash, and where it stands.
type fakeTask struct {
	state string
	// set holds the task, with the time at in s; since is when it joined the list of what is pending, oldest when the oldest of that did, if any.
	set           string
	at            float64
	since, oldest int
}

func (w *world) fakeTask(id string, task fakeTask) {
	w.t.Helper()
	ctx, prefix := w.test.Context(), "asynq:{"+dispatch.LaneName(w.store.LaneOf("ada"))+"}:"
	pipe := w.client.Pipeline()
	if task.state != "" {
		pipe.HSet(ctx, prefix+"t:"+id, "state", task.state)
	}
	if task.since > 0 {
		pipe.HSet(ctx, prefix+"t:"+id, "pending_since", task.since)
	}
	if task.oldest > 0 {
		pipe.HSet(ctx, prefix+"t:oldest", "state", "pending", "pending_since", task.oldest)
		pipe.LPush(ctx, prefix+"pending", "oldest")
	}
	if task.set != "" {
		pipe.ZAdd(ctx, prefix+task.set, redis.Z{Score: task.at, Member: id})
	}
	if _, err := pipe.Exec(ctx); err != nil {
		w.t.Fatalf("write a task: %v", err)
	}
}

func TestKnownIDIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.put(mailbox.Entry{ID: "same", Payload: "first"})
	w.put(mailbox.Entry{ID: "same", Payload: "second"})
	if s := w.state("same"); s.Payload != "first" {
		t.Errorf("payload %q", s.Payload)
	}
	if total := w.total(); total.Accepted != 1 || total.Queued != 1 {
		t.Errorf("counts %+v", total)
	}
}

func TestClearedWindowsLetTheLineGo(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(2)
	w.settle(delivered)
	tick, err := w.store.Clear(t.Context(), dispatch.MailboxOf("ada", "chat", 2))
	if err != nil || tick == nil {
		t.Fatalf("clear: %v, %v", tick, err)
	}
	if a := w.ask(*tick, true); a.Granted == nil || a.Granted.ID != ids[1] {
		t.Errorf("after the windows were cleared: %+v", a)
	}
}

func TestDeliverAtIsWhenItGoes(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(4)
	w.settle(delivered)
	var expected []time.Time
	for _, id := range ids[1:] {
		s := w.state(id)
		if s.Status != notification.StatusDeferred || s.Reason != "limit 1/3s" {
			t.Errorf("%s is %s (%s)", id, s.Status, s.Reason)
		}
		expected = append(expected, s.DeliverAt)
	}
	for i, g := range w.drain() {
		if !g.AdmittedAt.Equal(expected[i]) {
			t.Errorf("%s was expected at %s and went at %s", g.Notification.ID, expected[i], g.AdmittedAt)
		}
	}
}
