package agenda_test

import (
	"errors"
	"testing"
	"time"

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
