package dispatch_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
)

// gauge counts how many are inside, and how many were at most.
type gauge struct{ now, most chan int }

func newGauge() gauge {
	g := gauge{make(chan int, 1), make(chan int, 1)}
	g.now <- 0
	g.most <- 0
	return g
}

func (g gauge) enter() {
	now, most := <-g.now+1, <-g.most
	g.now <- now
	g.most <- max(now, most)
}

func (g gauge) leave() { g.now <- <-g.now - 1 }

func (g gauge) peak() int {
	most := <-g.most
	g.most <- most
	return most
}

func TestNeverMoreDeliveriesThanConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency, ticks = 3, 31
		inside := newGauge()
		b := newBench(dispatch.Config{Concurrency: concurrency}, &record{take: always(granted)}, func(context.Context, push.Message) error {
			inside.enter()
			defer inside.leave()
			pass(time.Second)
			return nil
		})
		start := time.Now()
		var all []<-chan error
		for i := range ticks {
			all = append(all, b.start(t.Context(), dispatch.Tick{ID: strconv.Itoa(i), Mailbox: tick.Mailbox}))
		}
		synctest.Wait()
		if b.InFlight() != concurrency {
			t.Errorf("%d in flight, want %d", b.InFlight(), concurrency)
		}
		for _, done := range all {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if inside.peak() != concurrency {
			t.Errorf("%d deliveries at once, want %d", inside.peak(), concurrency)
		}
		// 31 deliveries of a second each, three at a time: the room was never left empty either.
		wantClock(t, "all delivered", start, 11*time.Second)
	})
}

// Ticks that wait for their slot take no room from those that may run.
func TestHoldersTakeNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const holders = 500
		r := &record{take: func(_ context.Context, q dispatch.Question) (dispatch.Answer, error) {
			if q.ID == "runner" {
				return granted(), nil
			}
			if q.Pulled {
				return wait(time.Second), nil
			}
			return dispatch.Answer{}, nil
		}}
		b := newBench(dispatch.Config{Concurrency: 1}, r, sends)
		var held []<-chan error
		for i := range holders {
			held = append(held, b.start(t.Context(), dispatch.Tick{ID: strconv.Itoa(i), Mailbox: tick.Mailbox}))
		}
		synctest.Wait()
		start := time.Now()
		if err := finished(t, b.start(t.Context(), dispatch.Tick{ID: "runner", Mailbox: tick.Mailbox})); err != nil {
			t.Error(err)
		}
		wantClock(t, "delivered beside the holders", start, 0)
		for _, done := range held {
			unfinished(t, done)
		}
		for _, done := range held {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// The queue survives a panic in a handler, so it must not cost room: else the process would stop delivering, one panic
// after another.
func TestPanicOfTheRecordGivesRoomBack(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*record{
		"take": {take: func(context.Context, dispatch.Question) (dispatch.Answer, error) { panic("a bad reply") }},
		"settle": {take: always(granted), settle: func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			panic("a bad reply")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(dispatch.Config{Concurrency: 2}, r, sends)
				for range 5 {
					survived := func() (p any) {
						defer func() { p = recover() }()
						return b.Handle(t.Context(), tick)
					}()
					if survived != "a bad reply" {
						t.Fatalf("Handle ends with %v, want the record's panic", survived)
					}
				}
				if b.RoomTaken() != 0 || b.InFlight() != 0 {
					t.Errorf("room taken: %d, in flight: %d; want none", b.RoomTaken(), b.InFlight())
				}
			})
		})
	}
}
