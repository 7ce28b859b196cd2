package agenda_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

var (
	oncePer3s = agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 3 * time.Second}}}}
	delivered = dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"}
)

func setup(t *testing.T, settings agenda.Settings) *world {
	t.Helper()
	return newWorld(t, t, redistest.Client(t), settings)
}

// serve has the worker ask until nothing more is due at this moment; what is granted stays in flight.
func (w *world) serve() {
	w.t.Helper()
	for range 1000 {
		if at, _, found := w.next(); !found || at.After(w.now) {
			return
		}
		for partition := range partitions {
			w.round(partition, 32)
		}
	}
	w.t.Fatalf("it never comes to an end")
}

// rush makes n notifications of one user and has the worker serve them.
func (w *world) rush(n int) []string {
	w.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = w.accept(agenda.Entry{})
	}
	w.serve()
	return ids
}

func (w *world) wantOrder(got []*dispatch.Grant, want ...string) {
	w.t.Helper()
	var ids []string
	for _, g := range got {
		ids = append(ids, g.Notification.ID)
	}
	if len(ids) != len(want) {
		w.t.Fatalf("delivered %v, want %v", ids, want)
	}
	for i := range ids {
		if ids[i] != want[i] {
			w.t.Fatalf("delivered %v, want %v", ids, want)
		}
	}
}

func (w *world) wantNothingLeft() {
	w.t.Helper()
	if left := w.leftovers(); len(left) > 0 {
		w.t.Fatalf("left: %v", left)
	}
}

func TestSettlementOfAnOldGenerationChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	id := w.rush(1)[0]
	w.advance(lease + time.Second)
	if repairs := w.sweep(); repairs.LeasesEnded != 1 {
		t.Fatalf("repairs %+v, want one lease", repairs)
	}
	w.serve()
	if len(w.grants) != 2 || w.grants[1].Attempt != 2 {
		t.Fatalf("granted again: %+v", w.grants)
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

// A settlement whose reply was lost is repeated, also when what it led to is over and the notification waits again.
func TestARepeatedSettlementHasTheSameResult(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(2)
	g := w.grants[0]
	retry := dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: time.Second, Failure: true}
	for range 2 {
		if s, err := w.store.Settle(t.Context(), g, retry); err != nil || s.Stale {
			t.Fatalf("settlement %+v, %v", s, err)
		}
	}
	if total := w.total(); total.Retrying != 1 || total.Sending != 0 {
		t.Errorf("counts %+v", total)
	}
	w.grants = nil
	w.advance(time.Second)
	w.serve()
	if s := w.state(g.Notification.ID); s.Status != notification.StatusDeferred {
		t.Fatalf("after its time came it is %s", s.Status)
	}
	if s, err := w.store.Settle(t.Context(), g, retry); err != nil || !s.Stale {
		t.Errorf("settled a third time: %+v, %v", s, err)
	}
	if s := w.state(g.Notification.ID); s.Status != notification.StatusDeferred {
		t.Errorf("then it is %s", s.Status)
	}
}

// A repeated round does not grant a notification whose lease has ended and which another process was granted.
func TestALostReplyGrantsNothingOfAnotherProcess(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	partition, other := w.store.PartitionOf("ada"), w.open("other")
	pulled := w.round(partition, 1).Pulled
	take := dispatch.TakeRequest{Partition: partition, ID: "take", Capacity: 1, Wakeups: pulled}
	if first, err := w.store.Take(t.Context(), take); err != nil || len(first.Results[0].Grants) != 1 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	w.advance(lease + time.Second)
	w.sweep()
	theirs, err := other.Take(t.Context(), dispatch.TakeRequest{Partition: partition, ID: "a", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	granted, err := other.Take(t.Context(), dispatch.TakeRequest{
		Partition: partition, ID: "b", Capacity: 1, Wakeups: theirs.Pulled,
	})
	if err != nil || len(granted.Results[0].Grants) != 1 {
		t.Fatalf("the other: %+v, %v", granted, err)
	}
	if again, err := w.store.Take(t.Context(), take); err != nil || len(again.Results[0].Grants) != 0 {
		t.Errorf("asked again: %+v, %v", again.Results, err)
	}
}

// What is deferred is put down to the rule that its backlog waits for.
func TestDeferredForTheCap(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{Plan: throttle.Plan{
		Rules: []throttle.Rule{{Max: 2, Per: time.Minute}, {Max: 3, Per: time.Hour, Kind: throttle.KindCap}},
	}})
	w.rush(5)
	if total := w.total(); total.Deferred != 3 || total.Waiting.UserCap != 0 {
		t.Fatalf("behind the category's limit: %+v", total)
	}
	w.playUntil(w.now.Add(time.Minute))
	if total := w.total(); total.Deferred != 2 || total.Waiting.UserCap != 2 || total.UsersDeferred != 1 {
		t.Fatalf("behind the cap: %+v", total)
	}
	if crowds, err := w.store.Crowds(t.Context(), 10); err != nil || !crowds.Exact || len(crowds.Largest) != 1 ||
		crowds.Largest[0] != (stats.Crowd{
			UserID: "ada", Category: "chat", Deferred: 2, Reason: "user_cap 3/1h", Until: start.Add(time.Hour).UTC(),
		}) {
		t.Errorf("the crowds are %+v, %v", crowds, err)
	}
	w.drain()
	if total := w.total(); total.Deferred != 0 || total.Waiting.UserCap != 0 {
		t.Errorf("at the end: %+v", total)
	}
}

func TestThreeLeasesEndedIsACrashLoop(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	id := w.accept(agenda.Entry{})
	for range 3 {
		w.serve()
		w.advance(lease + time.Second)
		w.sweep()
	}
	if s := w.state(id); s.Status != notification.StatusFailed || s.Reason != notification.ReasonCrashLoop ||
		s.Attempts != 3 {
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
	w.wantOrder(got, ids[2], ids[3])
	if !got[0].AdmittedAt.Equal(start.Add(3*time.Second)) || !got[1].AdmittedAt.Equal(start.Add(6*time.Second)) {
		t.Errorf("the others did not move up: %+v", got)
	}
	w.wantNothingLeft()
}

// Cancelling all that waits takes the wake-up away with it.
func TestCancellingAllLeavesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(3)
	w.settle(delivered)
	for _, id := range append(ids[1:], w.accept(agenda.Entry{UserID: "eve", SendAt: start.Add(time.Hour)})) {
		if err := w.store.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	w.drain()
	w.wantNothingLeft()
}

func TestUrgentOnesGoFirst(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(3)
	w.settle(delivered)
	high := w.accept(agenda.Entry{Priority: notification.PriorityHigh})
	w.wantOrder(w.drain(), high, ids[1], ids[2])
}

func TestMaxDeferEndsWhatWouldWaitLonger(t *testing.T) {
	t.Parallel()
	settings := oncePer3s
	settings.MaxDefer = 7 * time.Second
	w := setup(t, settings)
	ids := w.rush(5)
	for i, want := range []notification.Status{"sending", "deferred", "deferred", "expired", "expired"} {
		if s := w.state(ids[i]); s.Status != want {
			t.Errorf("notification %d is %s (%s), want %s", i, s.Status, s.Reason, want)
		}
	}
	if late := w.rush(1)[0]; w.state(late).Status != notification.StatusExpired {
		t.Errorf("one that comes behind them is %s", w.state(late).Status)
	}
	if total := w.total(); total.Totals.Expired != 3 || total.Deferred != 2 {
		t.Errorf("counts %+v", total)
	}
}

// max_defer bounds each wait: the back-off after a failure is none, and a retry days later still has its time. What
// waits for its provider, tried or not, has no more than the wait that it is in.
func TestMaxDeferCountsFromTheLatestFailure(t *testing.T) {
	t.Parallel()
	const backoff, waits = time.Hour, 5 * time.Second
	for name, c := range map[string]struct {
		then dispatch.Outcome
		want notification.Status
	}{
		"a failure": {
			then: dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: waits, Failure: true},
			want: notification.StatusSending,
		},
		"a request to slow down": {
			then: dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: 2 * waits, Behind: true},
			want: notification.StatusExpired,
		},
		"a full host": {
			then: dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: 2 * waits, Untried: true, Refund: true},
			want: notification.StatusExpired,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := oncePer3s
			settings.MaxDefer = 7 * time.Second
			w := setup(t, settings)
			id := w.rush(1)[0]
			w.settle(dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: backoff, Failure: true})
			w.advance(backoff)
			w.serve()
			if len(w.grants) != 1 {
				t.Fatalf("it is %s after its back-off, want it granted again", w.state(id).Status)
			}
			if g := w.grants[0]; g.AdmittedAt.Sub(g.WaitsSince) > 2*time.Second {
				t.Errorf("admitted at %s, it waits since %s, want the end of its back-off", g.AdmittedAt, g.WaitsSince)
			}
			w.settle(c.then)
			w.advance(c.then.RetryAfter)
			w.serve()
			if s := w.state(id); s.Status != c.want {
				t.Errorf("it is %s (%s), want %s", s.Status, s.Reason, c.want)
			}
		})
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(1)
	waiting := w.accept(agenda.Entry{ExpiresAt: start.Add(2 * time.Second)})
	w.serve()
	w.advance(2 * time.Second)
	if repairs := w.sweep(); repairs.Expired != 1 {
		t.Fatalf("repairs %+v", repairs)
	}
	if s := w.state(waiting); s.Status != notification.StatusExpired || s.Reason != notification.ReasonExpired {
		t.Errorf("it is %s (%s)", s.Status, s.Reason)
	}
	beforeRetry := w.accept(agenda.Entry{UserID: "ben", ExpiresAt: w.now.Add(5 * time.Second)})
	w.grants = nil
	w.serve()
	w.settle(dispatch.Outcome{Disposition: dispatch.Retry, RetryAfter: 5 * time.Second})
	if s := w.state(beforeRetry); s.Status != notification.StatusExpired {
		t.Errorf("one whose retry would come too late is %s", s.Status)
	}
}

func TestScheduledComesAtItsTimeNotBefore(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{SendAt: start.Add(time.Hour)})
	if total := w.total(); total.Scheduled != 1 || total.Queued != 0 {
		t.Fatalf("counts %+v", total)
	}
	if got := w.drain(); len(got) != 1 || !got[0].AdmittedAt.Equal(start.Add(time.Hour)) {
		t.Errorf("delivered %+v", got)
	}
	w.wantNothingLeft()
}

func TestReturnedGrantKeepsPlaceAndSlot(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(2)
	w.settle(dispatch.Outcome{Disposition: dispatch.Returned, Refund: true})
	w.serve()
	if len(w.grants) != 1 || w.grants[0].Notification.ID != ids[0] || w.grants[0].Attempt != 1 {
		t.Fatalf("after it was given back: %+v", w.grants)
	}
}

func TestKnownIDIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.accept(agenda.Entry{ID: "same", Payload: "first"})
	w.accept(agenda.Entry{ID: "same", Payload: "second"})
	if s := w.state("same"); s.Payload != "first" {
		t.Errorf("payload %q", s.Payload)
	}
	if total := w.total(); total.Totals.Accepted != 1 || total.Queued != 1 {
		t.Errorf("counts %+v", total)
	}
}

func TestClearedWindowsLetTheBacklogGo(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	ids := w.rush(2)
	w.settle(delivered)
	if err := w.store.Clear(t.Context(), dispatch.BacklogOf("ada", "chat", partitions)); err != nil {
		t.Fatal(err)
	}
	w.serve()
	if len(w.grants) != 1 || w.grants[0].Notification.ID != ids[1] || !w.grants[0].AdmittedAt.Equal(start) {
		t.Errorf("after the windows were cleared: %+v", w.grants)
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

// A round that was given up and comes after the worker's next one gives nothing out: nobody would know of it.
func TestARoundThatComesLateGivesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t, redistest.Client(t), agenda.Settings{})
	partition := w.store.PartitionOf("ada")
	serve := func(id string) dispatch.TakeResult {
		t.Helper()
		reply, err := w.store.Take(t.Context(), dispatch.TakeRequest{
			Partition: partition, ID: id, Capacity: 1, Pull: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	w.accept(agenda.Entry{})
	if came := serve("worker.10").PulledCount; came != 1 {
		t.Fatalf("%d came", came)
	}
	for user := "a"; w.client.LLen(t.Context(), queueKey(partition, "pending")).Val() == 0; user += "a" {
		w.accept(agenda.Entry{UserID: user}) // of some user of this partition
	}
	if came := serve("worker.9").PulledCount; came != 0 {
		t.Errorf("%d came in a round that was given up", came)
	}
	if came := serve("worker.11").PulledCount; came == 0 {
		t.Error("nothing came in the next round")
	}
}

// What was granted at once to a user with limits of his own, of which whoever accepted it did not know, is given back
// and asked for with these. It does not go round for ever.
func TestOwnLimitsAreAskedFor(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	store := func(personal bool) *agenda.Agendas {
		settings := agenda.Settings{MaxDefer: 24 * time.Hour}
		s, err := agenda.New(client, agenda.Config{
			Partitions: 1, Categories: func() []string { return []string{"chat"} },
			Personal: func(string) bool { return personal },
			Settings: func(userID, _ string) agenda.Settings {
				if userID != "" && personal {
					settings.Plan.Rules = []throttle.Rule{{Max: 1, Per: time.Hour}}
				}
				return settings
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	knows, doesNot := store(true), store(false)
	for _, id := range []string{"n1", "n2"} {
		entry := agenda.Entry{ID: id, UserID: "ada", Category: "chat", Priority: notification.PriorityNormal}
		if _, err := doesNot.Accept(t.Context(), 0, []agenda.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(r dispatch.TakeRequest) dispatch.TakeResult {
		t.Helper()
		reply, err := knows.Take(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if reply := serve(dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8}); len(reply.Served)+len(reply.Pulled) > 0 {
		t.Fatalf("granted without own limits: %+v", reply)
	}
	again := serve(dispatch.TakeRequest{ID: "w.2", Capacity: 8, Pull: 8})
	if len(again.Served) > 0 || len(again.Pulled) != 1 {
		t.Fatalf("then it is not asked for: %+v", again)
	}
	taken := serve(dispatch.TakeRequest{ID: "w.3", Capacity: 8, Wakeups: again.Pulled}).Results[0]
	if len(taken.Grants) != 1 || taken.Grants[0].Notification.ID != "n1" {
		t.Errorf("under own limits of one an hour: %+v", taken)
	}
}

// Users of one batch may have limits of their own: each deferral is told with the rule of its own user.
func TestDeferralsOfABatchNameEachUsersRule(t *testing.T) {
	t.Parallel()
	told := map[string]int{}
	store, err := agenda.New(redistest.Client(t), agenda.Config{
		Partitions: 1, Categories: func() []string { return []string{"chat"} },
		Personal: func(userID string) bool { return userID == "ben" },
		Settings: func(userID, _ string) agenda.Settings {
			rule := throttle.Rule{Max: 1, Per: time.Hour}
			if userID == "ben" {
				rule.Per = 2 * time.Hour
			}
			return agenda.Settings{MaxDefer: 24 * time.Hour, Plan: throttle.Plan{Rules: []throttle.Rule{rule}}}
		},
		Deferred: func(category, rule string, n int) { told[category+": "+rule] += n },
	})
	if err != nil {
		t.Fatal(err)
	}
	acceptForBoth := func(suffix string) {
		t.Helper()
		var entries []agenda.Entry
		for _, user := range []string{"ada", "ben"} {
			entries = append(entries, agenda.Entry{
				ID: user + suffix, UserID: user, Category: "chat", Priority: notification.PriorityNormal,
			})
		}
		if _, err := store.Accept(t.Context(), 0, entries); err != nil {
			t.Fatal(err)
		}
	}
	acceptForBoth("-1")
	acceptForBoth("-2")
	reply, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "w.1", Capacity: 8, Pull: 8})
	if err != nil {
		t.Fatal(err)
	}
	request := dispatch.TakeRequest{ID: "w.2", Capacity: 8, Wakeups: reply.Pulled}
	if _, err := store.Take(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	clear(told)
	acceptForBoth("-3")
	want := map[string]int{"chat: limit 1/1h": 1, "chat: limit 1/2h": 1}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("deferrals told (-want +got):\n%s", diff)
	}
}
