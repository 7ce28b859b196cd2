package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/redistest"
)

// standing is a process whose Redis takes every script and replies to none until it is let go.
type standing struct {
	*process
	once sync.Once
	let  chan struct{}
}

func (w *world) standing(t *testing.T, cfg postgres.Config) *standing {
	t.Helper()
	s := &standing{let: make(chan struct{})}
	s.process = w.process(t, cfg, func(*process) error { <-s.let; return nil })
	t.Cleanup(s.goOn)
	return s
}

func (s *standing) goOn() { s.once.Do(func() { close(s.let) }) }

// accept fails the test when accepting does not return while Redis stands still.
func (s *standing) accept(t *testing.T, batch []*notification.Notification) []intake.Accepted {
	t.Helper()
	returned := make(chan []intake.Accepted, 1)
	go func() {
		accepted, err := s.store.Accept(t.Context(), batch)
		if err != nil {
			t.Errorf("accept: %v", err)
		}
		returned <- accepted
	}()
	select {
	case accepted := <-returned:
		return accepted
	case <-time.After(30 * time.Second):
		s.goOn()
		t.Fatal("Postgres has committed, but accepting waits while Redis stands still")
		return nil
	}
}

// A notification is accepted once Postgres has committed it: accepting does not wait for Redis. Once Redis moves again,
// the notifications go to the places of their acceptance.
func TestAcceptingDoesNotWaitForRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	s := w.standing(t, postgres.Config{PlacePatience: 10 * time.Millisecond})
	early := batchOf("ada", "free", 100)
	for _, n := range early[:20] {
		if a := s.accept(t, []*notification.Notification{n}); n.CreatedAt.IsZero() || a[0].Known {
			t.Errorf("accepted as %+v", a[0])
		}
	}
	s.accept(t, early[20:])
	w.accept(t, "bob", "free", 1) // by a process whose Redis moves
	if w.deliver(t, "bob") != "bob-free-0" {
		t.Error("what another process accepted meanwhile is not delivered")
	}
	s.goOn()
	w.await(t, "all are in their backlogs", func() bool { return w.inBacklogs(t) == len(early) })
	w.wantAwake(t, "ada")
	got := w.deliverAll(t)
	want := make([]string, len(early))
	for i, n := range early {
		want[i] = n.ID
	}
	if !slices.Equal(got, want) {
		t.Errorf("delivered %v, want them in the order of their acceptance", got)
	}
	w.wantNothingLeft(t)
}

// A notification that reaches Redis late takes the place of its acceptance, before those that were accepted after it.
func TestALateNotificationTakesItsOwnPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	s := w.standing(t, postgres.Config{PlacePatience: 10 * time.Millisecond})
	s.accept(t, batchOf("ada", "free", 1))
	w.accept(t, "ada", "free", 2)
	s.goOn()
	w.wantNothingLeft(t)
	got := w.deliverAll(t)
	if len(got) != 3 || got[0] != "ada-free-000" {
		t.Errorf("delivered %v, want the one that was accepted first to come first", got)
	}
}

// While Redis stands still, a process keeps a bounded number of notifications on their way. The relay carries over
// those that exceed the bound.
func TestWhatExceedsTheRoomIsCarriedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	s := w.standing(t, postgres.Config{PlacePatience: time.Millisecond, PlaceRoom: 32}) // two single ones
	for i := range 40 {
		n := batchOf("ada", "free", 1)[0]
		n.ID = fmt.Sprintf("single-%02d", i)
		s.accept(t, []*notification.Notification{n})
	}
	w.overdue(t)
	w.round(t)
	w.wantAwake(t, "ada")
	if placed := w.inBacklogs(t); placed != 40 {
		t.Errorf("the relay carried over %d of 40", placed)
	}
	s.goOn()
	if got := w.deliverAll(t); len(got) != 40 {
		t.Errorf("delivered %d of 40", len(got))
	}
}
