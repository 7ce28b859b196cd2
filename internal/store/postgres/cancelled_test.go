package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
)

// A process dies, or is stopped, between the two steps of a cancel: Postgres knows that the notification has ended, and
// Redis does not. It is no difference, because the relay is about to remove it.
func TestACancelMayStopHalfway(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "chat", 2)
	w.wantNothingLeft(t) // what has ended stays in the outbox for as long as it may be on its way to its backlog
	w.deliver(t, "ada")
	if err := w.diesBeforePut(t).store.Cancel(t.Context(), "ada-chat-1"); err != nil {
		t.Fatal(err)
	}
	if n := w.inBacklogs(t); n != 1 {
		t.Fatalf("%d wait in Redis, want the cancelled one", n)
	}
	w.wantDifferences(t)
	w.overdue(t)
	w.round(t)
	if n := w.inBacklogs(t); n != 0 {
		t.Errorf("%d wait in Redis", n)
	}
	w.wantNothingLeft(t)
}

// A cancel needs Postgres only. It does not wait for a Redis that stands still: whoever asked would learn that it
// failed, and then that there was nothing to cancel.
func TestACancelDoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "free", 1)
	s := w.standing(t, postgres.Config{PlacePatience: 10 * time.Millisecond})
	returned := make(chan error, 1)
	go func() { returned <- s.store.Cancel(t.Context(), "ada-free-0") }()
	select {
	case err := <-returned:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		s.goOn()
		t.Fatal("Postgres has cancelled it, but the cancel waits while Redis stands still")
	}
	w.wantStatus(t, "ada-free-0", "cancelled")
	s.goOn()
	w.await(t, "it is out of its backlog", func() bool { return w.inBacklogs(t) == 0 })
	w.wantNothingLeft(t)
}

// A rebuild has read a notification when it is cancelled, and puts it into its backlog afterwards. The relay takes it
// out again.
func TestACancelMayOvertakeARebuild(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(w *world){
		"ByAProcess": func(w *world) {
			if err := w.store.Cancel(t.Context(), "ada-free-0"); err != nil {
				t.Error(err)
			}
		},
		"ByTheRelay": func(w *world) { // of a process that has died halfway
			if err := w.diesBeforePut(t).store.Cancel(t.Context(), "ada-free-0"); err != nil {
				t.Error(err)
			}
			if err := w.relay.Round(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.accept(t, "ada", "free", 1)
			w.wantNothingLeft(t) // what has ended stays in the outbox for as long as it may be on its way
			epoch := w.epochOf(t, "ada")
			var once sync.Once
			slow := w.process(t, postgres.Config{StatementTimeout: time.Minute}, func(*process) error {
				if w.epochOf(t, "ada") > epoch { // it has read what is open, and is about to restore it
					once.Do(func() { cancel(w) })
				}
				return nil
			})
			rebuilder := relay.New(slow.store.Stores, relay.Config{
				Check:   func(*notification.Notification) error { return nil },
				Windows: func(string) time.Duration { return time.Hour },
			})
			if _, err := rebuilder.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := w.inBacklogs(t); n != 1 {
				t.Fatalf("%d wait in Redis, want the cancelled one", n)
			}
			w.overdue(t)
			w.round(t)
			if n := w.inBacklogs(t); n != 0 {
				t.Errorf("%d wait in Redis", n)
			}
			w.wantNothingLeft(t)
		})
	}
}

// epochOf is how often a user's partition was built.
func (w *world) epochOf(t *testing.T, user string) (epoch int) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), "SELECT epoch FROM pacer.partitions WHERE partition = $1",
		w.agendas.PartitionOf(user)).Scan(&epoch); err != nil {
		t.Error(err)
	}
	return epoch
}
