package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
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

func (w *world) wantNothingLeft() {
	w.t.Helper()
	if left := w.leftovers(); len(left) > 0 {
		w.t.Fatalf("left: %v", left)
	}
}

// What stands behind a notification that expires before its slot goes then, as was promised, and not when somebody
// sweeps.
func TestWhatStandsBehindWhatExpiresGoesThen(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{
		{Max: 1, Per: time.Hour, Kind: throttle.KindNamed, Cap: "mail", Channels: "email"},
	}}})
	for _, expires := range []time.Time{{}, start.Add(3 * time.Second)} {
		w.accept(agenda.Entry{Payload: agenda.OnChannel("email"), ExpiresAt: expires})
	}
	id := w.accept(agenda.Entry{Payload: agenda.OnChannel("fcm")})
	w.serve()
	told := w.state(id).DeliverAt
	if last := w.drain(); len(last) != 2 || !last[1].AdmittedAt.Equal(told) || !told.Equal(start.Add(3*time.Second)) {
		t.Errorf("it is told to go at %s; %d went, the last at %s", told, len(last), last[len(last)-1].AdmittedAt)
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
