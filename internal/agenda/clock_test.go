package agenda_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
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
	back, err := w.client.HExists(w.test.Context(), keyspace.Prefix(partition)+"sweep", "back").Result()
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

// sweepAndServe sweeps n times, a second apart, and serves what is due between the sweeps.
func (w *world) sweepAndServe(n int) (granted []*dispatch.Grant) {
	w.t.Helper()
	for range n {
		w.sweepAfterGap()
		granted = append(granted, w.playUntil(w.now)...)
		w.advance(time.Second)
	}
	return granted
}

var retryIn30m = dispatch.Outcome{
	Disposition: dispatch.Retry, Reason: "transient: 503", RetryAfter: 30 * time.Minute, Failure: true,
}

// A retry keeps its back-off, however many sweeps see it while users are woken, and so does one that is set meanwhile.
func TestRetriesKeepTheirBackOffWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		back   time.Duration
		during bool // the retry is set after the clock
	}{
		"an hour":    {time.Hour, false},
		"15 s":       {15 * time.Second, false},
		"after that": {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{})
			w.rush(1)
			for i, user := range w.neighbours(250) { // they keep the sweeper busy
				w.accept(agenda.Entry{UserID: user, SendAt: w.now.Add(24*time.Hour + time.Duration(i)*time.Second)})
			}
			if !test.during {
				w.settle(retryIn30m)
			}
			w.setClockBack(test.back)
			if test.during {
				w.sweepAfterGap()
				w.settle(retryIn30m)
			}
			from := w.now
			if granted := append(w.sweepAndServe(10), w.playUntil(from.Add(29*time.Minute))...); len(granted) != 0 {
				t.Errorf("the retry goes after %s", granted[0].AdmittedAt.Sub(from))
			}
			if granted := w.playUntil(from.Add(31 * time.Minute)); len(granted) != 1 {
				t.Errorf("%d go when the back-off has ended", len(granted))
			}
		})
	}
}

// Those behind users whose wake-ups stay as late as they are, because a moment was asked for, are woken all the same.
func TestManyThatAreDueAtOneMomentHoldUpNobody(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string]func(w *world) []agenda.Entry{
		"of many users": func(w *world) (entries []agenda.Entry) {
			for _, user := range w.neighbours(150) {
				entries = append(entries, agenda.Entry{UserID: user, SendAt: start.Add(24 * time.Hour)})
			}
			return entries
		},
		"of one user": func(w *world) []agenda.Entry {
			return slices.Repeat([]agenda.Entry{{UserID: w.neighbour(), SendAt: start.Add(24 * time.Hour)}}, 2100)
		},
		"a single one": func(w *world) []agenda.Entry {
			return []agenda.Entry{{UserID: w.neighbour(), SendAt: start.Add(5 * 24 * time.Hour)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, oncePer3s)
			w.rush(2)
			w.settle(delivered)
			for _, e := range entries(w) {
				w.accept(e)
			}
			w.setClockBack(time.Hour)
			if granted := w.sweepAndServe(10); len(granted) != 1 {
				t.Errorf("%d of the user who waits for a window went", len(granted))
			}
			pulls := w.pulls
			w.sweepAndServe(3)
			if w.catchesUp(w.store.PartitionOf("ada")) || w.pulls != pulls {
				t.Errorf("it still wakes users: %d in three sweeps", w.pulls-pulls)
			}
			w.drain()
			w.wantNothingLeft()
		})
	}
}

// A retry that stands behind many that are later comes as early as any other.
func TestARetryAmongManyThatAreLaterComesInTime(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.rush(1)
	w.settle(retryIn30m)
	for range 700 {
		w.accept(agenda.Entry{SendAt: start.Add(29 * time.Minute)})
		w.accept(agenda.Entry{SendAt: start.Add(24 * time.Hour)})
	}
	w.setClockBack(time.Hour)
	from := w.now
	w.sweepAndServe(10)
	if granted := w.playUntil(from.Add(31 * time.Minute)); len(granted) != 1 || granted[0].Attempt != 2 {
		t.Errorf("%d go when the back-off has ended", len(granted))
	}
	w.drain()
	w.wantNothingLeft()
}

// A user may be awake when the sweep comes. Then the retry comes in time all the same.
func TestARetryOfAUserWhoIsAwakeComesInTime(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.rush(1)
	w.settle(retryIn30m)
	w.setClockBack(time.Hour)
	from := w.now
	w.accept(agenda.Entry{})
	w.sweepAfterGap()
	if granted := w.playUntil(from.Add(29 * time.Minute)); len(granted) != 1 {
		t.Errorf("%d go before the back-off has ended", len(granted))
	}
	if granted := w.playUntil(from.Add(31 * time.Minute)); len(granted) != 1 {
		t.Errorf("%d go when the back-off has ended", len(granted))
	}
}

// Many leases of workers that died end in time too, where nobody waits.
func TestManyLeasesEndInTimeWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.room = 1000
	w.rush(250)
	if len(w.grants) != 250 {
		t.Fatalf("%d are in flight", len(w.grants))
	}
	w.setClockBack(time.Hour)
	w.sweepAndServe(4)
	w.grants = nil // the workers die
	w.advance(lease + 10*time.Second)
	ended := 0
	for range 10 {
		ended += w.sweep().LeasesEnded
	}
	if ended != 250 {
		t.Errorf("%d of 250 leases ended", ended)
	}
}
