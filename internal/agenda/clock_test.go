package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
)

// setClockBack sets the clock of Redis back, after a sweep.
func (w *world) setClockBack(by time.Duration) {
	w.t.Helper()
	w.sweep()
	w.advance(-by)
}

// sweepWhileItWakes sweeps until a sweep wakes nobody for the clock's sake, and returns how many scripts that took and
// by how much the clock was set back, as they tell.
func (w *world) sweepWhileItWakes() (scripts int, told time.Duration) {
	w.t.Helper()
	for partition := range partitions {
		for again := true; again; {
			repairs, err := w.store.Sweep(w.test.Context(), partition)
			if err != nil {
				w.t.Fatalf("sweep: %v", err)
			}
			scripts++
			told = max(told, repairs.ClockSetBack)
			again = w.catchesUp(partition)
		}
	}
	return scripts, told
}

// catchesUp reports whether a partition has yet to wake users.
func (w *world) catchesUp(partition int) bool {
	w.t.Helper()
	back, err := w.client.HExists(w.test.Context(), agenda.PartitionPrefix(partition)+"sweep", "back").Result()
	if err != nil {
		w.t.Fatalf("look whether it catches up: %v", err)
	}
	return back
}

// When the clock is set back, what waits for a window waits for no more than that window, and not until the clock comes
// again to where it was.
func TestWhatWaitsDoesNotWaitForTheClock(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.rush(2)
	w.settle(dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "delivered"})
	w.advance(time.Second)
	w.setClockBack(time.Hour)
	from := w.now
	if due := w.due(); !due {
		t.Error("a look finds nothing to do")
	}
	if _, told := w.sweepWhileItWakes(); told < time.Hour-time.Second || told > time.Hour {
		t.Errorf("the clock was set back by %s, as sweeps tell", told)
	}
	granted := w.playUntil(from.Add(4 * time.Second))
	if len(granted) != 1 || granted[0].AdmittedAt.Before(from.Add(2*time.Second)) {
		t.Fatalf("%d went within the window: %+v", len(granted), granted)
	}
	if _, told := w.sweepWhileItWakes(); told != 0 {
		t.Error("it is told twice")
	}
	w.drain()
	w.wantNothingLeft()
}

// So it is with a retry, and with what a worker that died had in flight.
func TestRetriesAndLeasesDoNotWaitForTheClock(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.rush(1)
	w.serve()
	w.settle(dispatch.Outcome{
		Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: time.Minute, Failure: true,
	})
	w.accept(agenda.Entry{UserID: "eve"})
	w.serve()
	if len(w.grants) != 1 {
		t.Fatalf("%d are in flight", len(w.grants))
	}
	w.setClockBack(time.Hour)
	from := w.now
	w.sweepWhileItWakes()
	w.grants = nil // the worker dies
	if granted := w.playUntil(from.Add(58 * time.Second)); len(granted) != 0 {
		t.Errorf("%s goes before its back-off has ended", granted[0].Notification.ID)
	}
	w.advance(from.Add(time.Minute + 2*time.Second).Sub(w.now))
	w.sweep()
	if granted := w.playUntil(w.now.Add(time.Second)); len(granted) != 2 {
		t.Errorf("%d go in a minute", len(granted))
	}
	w.drain()
	w.wantNothingLeft()
}

// Many users are woken some at a time, each once, and as many whose wake-ups have the same moment.
func TestUsersAreWokenInPartsWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.acceptForUsers(700, 350)
	w.playUntil(start)
	w.setClockBack(time.Hour)
	from := w.now
	if scripts, _ := w.sweepWhileItWakes(); scripts < 4 || scripts > 4*partitions {
		t.Errorf("it took %d sweeps", scripts)
	}
	if granted := w.playUntil(from.Add(4 * time.Second)); len(granted) != 350 {
		t.Errorf("%d of 350 went within the window", len(granted))
	}
	w.drain()
	w.wantNothingLeft()
}
