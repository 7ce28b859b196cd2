package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// However often a tick is deferred, and however often the record was away: it is never archived, counts as no failure,
// and loses nothing of its retry budget.
func TestDeferralsCostNothing(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func() error{
		"deferred":           func() error { return &dispatch.DeferralError{Until: time.Now().Add(time.Hour)} },
		"deferred, wrapped":  func() error { return errors.Join(&dispatch.DeferralError{Until: time.Now().Add(time.Hour)}) },
		"the record is away": func() error { return errors.New("take: connection refused") },
		"panic":              func() error { panic("a fault of ours") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			times := 40
			if name == "deferred" {
				times = 200
			}
			conn := redistest.Client(t)
			enqueue(t, conn, tickIn(0, "n-1"))
			runs := make(chan *asynq.TaskInfo)
			serve(t, conn, queue.ServerConfig{Lanes: 1}, func(context.Context, dispatch.Tick) error {
				runs <- inspect(t, conn, 0, "n-1")
				return again()
			})
			inspector := asynq.NewInspectorFromRedisClient(conn)
			info := receive(t, "the tick", runs)
			for range times {
				await(t, "the tick comes again", func() bool {
					select {
					case info = <-runs:
						return true
					default:
						// Its time has come. That fails until it is put back, and when it has come by itself.
						_ = inspector.RunTask("push-0", "n-1")
						return false
					}
				})
				if info.Retried != 0 || info.MaxRetry != math.MaxInt32 {
					t.Fatalf("it has been tried again %d of %d times, want 0 of %d", info.Retried, info.MaxRetry, math.MaxInt32)
				}
			}
			wantUncounted(t, conn, 0)
		})
	}
}

// hold is how long the dispatcher keeps a tick in place by default.
const hold = 1500 * time.Millisecond

// A tick comes before its slot, so that its handler can hold it until the very moment, and never so early that the handler
// sends it back once more. The bubble has a clock of its own: a slow machine is never late there.
func TestWakesBeforeTheSlot(t *testing.T) {
	t.Parallel()
	waits := []time.Duration{
		300 * time.Millisecond, 900 * time.Millisecond, hold + time.Millisecond, 1750 * time.Millisecond, 1999 * time.Millisecond,
		2 * time.Second, 2001 * time.Millisecond, 2500 * time.Millisecond, 5123 * time.Millisecond,
	}
	offsets := []time.Duration{0, 1 * time.Millisecond, 279 * time.Millisecond, 280 * time.Millisecond, 281 * time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond}
	for _, offset := range offsets {
		t.Run(fmt.Sprintf("%s after a second begins", offset), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				<-time.After(offset) // the bubble's clock begins with a whole second
				wakes(t, waits)
			})
		})
	}
}

// wakes gives each tick to the queue twice, once when it is enqueued and once by a deferral, with the same wait.
func wakes(t *testing.T, waits []time.Duration) {
	t.Helper()
	conn := redistest.Mini(t)
	type pull struct {
		id string
		at time.Time
	}
	pulls := make(chan pull, 2*len(waits))
	deferred := make(chan map[string]time.Time, 1)
	deferred <- map[string]time.Time{}
	wait := map[string]time.Duration{}
	for _, w := range waits {
		wait[w.String()] = w
	}
	server := queue.NewServer(conn, queue.ServerConfig{Lanes: 1, Log: slog.New(slog.DiscardHandler)})
	err := server.Start(func(_ context.Context, tick dispatch.Tick) error {
		pulls <- pull{tick.ID, time.Now()}
		slots := <-deferred
		defer func() { deferred <- slots }()
		if _, again := slots[tick.ID]; again {
			return nil
		}
		slots[tick.ID] = time.Now().Add(wait[tick.ID])
		return &dispatch.DeferralError{Until: slots[tick.ID]}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client := queue.NewClient(conn)
	slots := map[string]time.Time{}
	for id, w := range wait {
		slots[id] = time.Now().Add(w)
		if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tickIn(0, id), After: w}); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for range 2 * len(waits) {
		p := <-pulls
		slot := slots[p.id]
		if seen[p.id]++; seen[p.id] == 2 {
			d := <-deferred
			slot = d[p.id]
			deferred <- d
		}
		if early := slot.Sub(p.at); early < 0 || early > hold {
			t.Errorf("%s: pulled the %d. time %s before its slot, want 0 to %s", p.id, seen[p.id], early, hold)
		}
	}
}

// What is not a deferral comes again too, soon but not at once.
func TestOtherErrorsComeAgainAfterASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		enqueue(t, conn, tickIn(0, "n-1"))
		pulls := make(chan time.Time, 100)
		server := queue.NewServer(conn, queue.ServerConfig{Lanes: 1, Log: slog.New(slog.DiscardHandler)})
		err := server.Start(func(context.Context, dispatch.Tick) error {
			pulls <- time.Now()
			return errors.New("take: connection refused")
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		before := <-pulls
		for range 3 {
			at := <-pulls
			if d := at.Sub(before); d < 200*time.Millisecond || d > 2*time.Second {
				t.Errorf("it came again after %s, want about a second", d)
			}
			before = at
		}
	})
}
