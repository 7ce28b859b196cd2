package agenda_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// due reports whether a sweep of ada's partition would find something. No other partition has anything.
func (w *world) due() bool {
	w.t.Helper()
	partitions, err := w.store.Due(w.test.Context())
	if err != nil {
		w.t.Fatalf("look for what is due: %v", err)
	}
	partition := w.store.PartitionOf("ada")
	if slices.ContainsFunc(partitions, func(p int) bool { return p != partition }) {
		w.t.Fatalf("partitions %v are due, want at most %d", partitions, partition)
	}
	return len(partitions) > 0
}

// A partition is due exactly when a sweep would find something in it: a lease that has ended, a notification that has
// expired, a wake-up that did not come. To ask changes nothing of that.
func TestDueIsWhatASweepFinds(t *testing.T) {
	t.Parallel()
	daily := agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 24 * time.Hour}}}}
	for name, test := range map[string]struct {
		begin func(w *world)
		wait  time.Duration
		found dispatch.Repairs
	}{
		"a lease that has ended": {
			begin: func(w *world) { w.accept(agenda.Entry{}); w.serve() },
			wait:  15 * time.Second, found: dispatch.Repairs{LeasesEnded: 1},
		},
		"an expired notification": {
			begin: func(w *world) {
				w.accept(agenda.Entry{})
				w.serve()
				w.settle(dispatch.Outcome{Disposition: dispatch.Delivered})
				w.accept(agenda.Entry{ID: "late", ExpiresAt: w.now.Add(20 * time.Second)})
				w.serve()
			},
			wait: 20 * time.Second, found: dispatch.Repairs{Expired: 1},
		},
		"a lost wake-up": {
			begin: func(w *world) {
				w.accept(agenda.Entry{})
				w.client.Del(w.test.Context(), "asynq:{"+queue.PartitionName(w.store.PartitionOf("ada"))+"}:pending")
			},
			wait: time.Second, found: dispatch.Repairs{Woken: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, daily)
			test.begin(w)
			for left := test.wait; left > 0; left -= time.Second { // without a gap in which nobody sweeps
				if w.due() {
					t.Fatalf("it is due %s too early", left)
				}
				w.advance(time.Second)
			}
			for range 2 {
				if !w.due() {
					t.Fatal("it is not due")
				}
			}
			repairs, err := w.store.Sweep(t.Context(), w.store.PartitionOf("ada"))
			if repairs.LeasesEnded != test.found.LeasesEnded || repairs.Expired != test.found.Expired ||
				repairs.Woken != test.found.Woken || err != nil {
				t.Errorf("the sweep finds %+v, want %+v; %v", repairs, test.found, err)
			}
			if w.due() {
				t.Error("it is due after the sweep")
			}
		})
	}
}

// Asking keeps a process alive, as a sweep does: what it holds is left to it.
func TestWhoAsksWhatIsDueLives(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	partition, other := w.store.PartitionOf("ada"), w.open("other")
	if pulled := w.round(partition, 1).Pulled; len(pulled) != 1 {
		t.Fatalf("pulled %v", pulled)
	}
	for range 8 { // longer than a process counts as alive that does not show it
		w.advance(500 * time.Millisecond)
		w.due()
		if woken, _ := w.sweepAll(other, partition); woken > 0 {
			t.Fatal("a wake-up was taken from a process that lives")
		}
	}
}

// After a gap in which nobody looked, no lease ends for a while: asking begins that truce, and keeps it.
func TestAskingWhatIsDueBeginsTheTruce(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	w.accept(agenda.Entry{})
	w.due()
	w.serve()
	w.advance(16 * time.Second)
	for range 4 {
		if w.due() {
			t.Fatal("a lease is due that ended while nobody looked")
		}
		w.advance(time.Second)
	}
	w.advance(2 * time.Second)
	if !w.due() {
		t.Error("the lease is not due after the truce")
	}
}

// A partition that has lost its state, was built on another server, or has moved to another store is due: the sweep
// refuses, and says why. Partitions on several servers are asked each by itself.
func TestWhatASweepRefusesIsDue(t *testing.T) {
	t.Parallel()
	for name, spread := range map[string]bool{"one server": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, agenda.Settings{})
			guarded := w.openGuarded()
			if spread {
				w.store.Spread()
				guarded.Spread()
			}
			want := func(store *agenda.Agendas, want ...int) {
				t.Helper()
				if got, err := store.Due(t.Context()); !slices.Equal(got, want) || err != nil {
					t.Errorf("partitions %v are due, want %v; %v", got, want, err)
				}
			}
			set := func(partition int, name, value string) {
				t.Helper()
				key := keyspace.Prefix(partition) + name
				if err := w.client.Set(t.Context(), key, value, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			want(w.store)
			want(guarded, 0, 1)
			set(1, "mark", "1")
			want(w.store, 1)
			set(0, "epoch", "1 server")
			set(1, "epoch", "1 server")
			if _, err := guarded.Sweep(t.Context(), 0); err != nil { // it notes where it was built
				t.Fatal(err)
			}
			want(guarded, 1)
			set(1, "built", "another")
			want(guarded, 1)
			if _, err := guarded.Sweep(t.Context(), 1); !errors.Is(err, dispatch.ErrLost) {
				t.Errorf("the sweep gives %v", err)
			}
		})
	}
}

// An accept tells that a wake-up is pending where none was, and only then.
func TestAnAcceptTellsThatSomethingIsPending(t *testing.T) {
	t.Parallel()
	client, told := redistest.Client(t), 0
	store, err := agenda.New(client, agenda.Config{
		Partitions: 1, Pending: func(int) { told++ },
		Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		user string
		in   time.Duration
		want int
	}{
		{"ada", time.Hour, 0}, // scheduled
		{"ada", 0, 1},
		{"ada", 0, 1}, // it has a wake-up
		{"eve", 0, 1}, // another is pending
	} {
		e := agenda.Entry{ID: rand.Text(), UserID: step.user, Category: "chat", Priority: notification.PriorityNormal}
		if step.in > 0 {
			e.SendAt = time.Now().Add(step.in)
		}
		if _, err := store.Accept(t.Context(), 0, []agenda.Entry{e}); err != nil || told != step.want {
			t.Errorf("after one for %s in %s it was told %d times, want %d, %v", step.user, step.in, told, step.want, err)
		}
	}
}
