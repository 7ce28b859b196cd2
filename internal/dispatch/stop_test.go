package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
)

// What ends a tick's stay before its time: the dispatcher stops, or the tick's own context ends.
var endings = map[string]func(*dispatch.Dispatcher, context.CancelFunc){
	"stopped":   func(d *dispatch.Dispatcher, _ context.CancelFunc) { d.Stop() },
	"cancelled": func(_ *dispatch.Dispatcher, cancel context.CancelFunc) { cancel() },
}

func TestEndWhileHolding(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := newBench(dispatch.Config{}, &record{take: answers(wait(time.Second))}, sends)
				start := time.Now()
				done := b.start(ctx, tick)
				pass(300 * time.Millisecond)
				unfinished(t, done)
				end(b.Dispatcher, cancel)
				wantDeferral(t, finished(t, done), start.Add(time.Second))
				wantClock(t, "deferred", start, 300*time.Millisecond)
			})
		})
	}
}

func TestEndWhileWaitingForRoom(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				release := make(chan struct{})
				b := newBench(dispatch.Config{Concurrency: 1}, &record{take: always(granted)}, func(context.Context, push.Message) error {
					<-release
					return nil
				})
				busy := b.start(t.Context(), tick)
				synctest.Wait()
				waiting := b.start(ctx, tick)
				pass(time.Minute)
				unfinished(t, waiting)
				if n := len(b.record.questions()); n != 1 {
					t.Errorf("the record was asked %d times, want once: the decision belongs to the moment when there is room", n)
				}
				end(b.Dispatcher, cancel)
				wantDeferral(t, finished(t, waiting), time.Now())
				close(release)
				if err := finished(t, busy); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Who stops the dispatcher waits for deliveries in flight by waiting for Handle; they are neither interrupted nor lost.
func TestEndWhileSending(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				release := make(chan struct{})
				var during error
				r := &record{take: answers(granted())}
				r.settle = func(ctx context.Context, _ *dispatch.Grant, _ dispatch.Outcome) (dispatch.Settlement, error) {
					return dispatch.Settlement{}, ctx.Err()
				}
				b := newBench(dispatch.Config{}, r, func(ctx context.Context, _ push.Message) error {
					<-release
					during = ctx.Err()
					return nil
				})
				done := b.start(ctx, tick)
				synctest.Wait()
				end(b.Dispatcher, cancel)
				unfinished(t, done)
				if b.InFlight() != 1 {
					t.Errorf("%d in flight, want 1", b.InFlight())
				}
				close(release)
				if err := finished(t, done); err != nil {
					t.Error(err)
				}
				if during != nil {
					t.Errorf("the delivery was interrupted: %v", during)
				}
				if outcomes := r.settled(); len(outcomes) != 1 || outcomes[0].Fate != dispatch.Delivered {
					t.Errorf("settled %+v, want delivered, once", outcomes)
				}
				if b.InFlight() != 0 || b.RoomTaken() != 0 {
					t.Errorf("in flight: %d, room taken: %d; want none", b.InFlight(), b.RoomTaken())
				}
			})
		})
	}
}

func TestStoppedDispatcherAsksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(dispatch.Config{}, &record{take: always(granted)}, sends)
		b.Stop()
		b.Stop() // as often as you like
		for range 50 {
			wantDeferral(t, b.Handle(t.Context(), tick), time.Now())
		}
		if n := len(b.record.questions()); n != 0 {
			t.Errorf("the record was asked %d times", n)
		}
		if b.journal.Pulls != 50 {
			t.Errorf("%d pulls are reported, want 50", b.journal.Pulls)
		}
	})
}

// A late grant is given back; when the dispatcher has been stopped meanwhile, the tick is not asked again.
func TestStopBetweenLateGrantAndNextQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := granted()
		late.Extra = &dispatch.Alarm{Tick: tick}
		b := newBench(dispatch.Config{}, &record{take: answers(late)}, sends)
		b.queue.enqueue = func() error {
			pass(time.Second)
			b.Stop()
			return nil
		}
		wantDeferral(t, b.Handle(t.Context(), tick), time.Now()) // that is, when it returns
		if outcomes := b.record.settled(); len(outcomes) != 1 || outcomes[0].Fate != dispatch.Returned {
			t.Errorf("settled %+v, want returned, once", outcomes)
		}
	})
}
