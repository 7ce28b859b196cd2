package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// Nothing happens but what is asked for: one round, with what is due, and its deliveries to their ends.
func TestStepperMakesOneRoundAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, journal := newStore(), &journal{}
		s.wake("u-1", hold(time.Second), grant(granted(), granted()))
		s.wake("u-2", hold(time.Minute))
		cfg := dispatch.Config{Settings: retries, Observer: journal, Log: slog.New(slog.DiscardHandler)}
		stepper := dispatch.NewStepper(cfg, s, s, push.Registry{notification.ChannelLog: sender(sends)})
		round := func(pull int) {
			t.Helper()
			if err := stepper.Round(t.Context(), 0, pull, nil); err != nil {
				t.Fatal(err)
			}
		}
		next := func(want time.Duration) {
			t.Helper()
			at, ok := stepper.Next(0)
			if got := time.Until(at); ok != (want >= 0) || ok && got != want {
				t.Errorf("the next is due in %s (%t), want %s", got, ok, want)
			}
		}
		next(-1)
		round(0)
		if len(s.asks()) != 0 {
			t.Errorf("with nothing to do it asks %+v", s.asks())
		}
		round(1)
		next(0)
		round(1)
		next(0)
		round(0)
		next(time.Second - early)
		round(0)
		pass(time.Second - early)
		round(0)
		next(time.Minute - time.Second)
		stepper.Release(t.Context(), 0)
		next(-1)
		w := func(user string, generation int64) []dispatch.Wakeup {
			return []dispatch.Wakeup{{UserID: user, Generation: generation, Categories: []string{"chat"}}}
		}
		want := []dispatch.TakeRequest{
			{Pull: 1},
			{Pull: 1, Wakeups: w("u-1", 1)},
			{Wakeups: w("u-2", 2)},
			{Wakeups: w("u-1", 1)},
			{Release: w("u-2", 2)},
		}
		var got []dispatch.TakeRequest
		for _, r := range s.asks() {
			got = append(got, r.TakeRequest)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(dispatch.TakeRequest{}, "ID", "Capacity")); diff != "" {
			t.Errorf("rounds differ (-want +got):\n%s", diff)
		}
		if len(journal.sends()) != 2 || len(s.settled()) != 2 || stepper.InFlight() != 0 {
			t.Errorf("%d sent, %d settled, %d in flight", len(journal.sends()), len(s.settled()), stepper.InFlight())
		}
	})
}

// Rounds of a partition wait for each other, deliveries do not; and who waits can be told to stop.
func TestStepperRoundsDoNotOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, inside := newStore(), newGauge()
		s.wake("u-1", grant(granted()))
		s.before = func(context.Context, dispatch.TakeRequest) error {
			inside.enter()
			defer inside.leave()
			pass(time.Second)
			return nil
		}
		stepper := dispatch.NewStepper(dispatch.Config{
			Partitions: 2, Log: slog.New(slog.DiscardHandler),
		}, s, s, push.Registry{
			notification.ChannelLog: newGauge().slow(time.Minute),
		})
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- stepper.Round(t.Context(), 0, 1, nil) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := stepper.Round(ctx, 0, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waits in vain and gives %v", err)
		}
		if err := errors.Join(<-errs, <-errs); err != nil || inside.peak() != 1 {
			t.Errorf("%d rounds at once, %v", inside.peak(), err)
		}
	})
}

// Deliveries can be made side by side, by whom the caller says.
func TestStepperSpawns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, inside := newStore(), newGauge()
		s.wake("u-1", grant(granted(), granted(), granted()))
		cfg := dispatch.Config{Settings: retries, Log: slog.New(slog.DiscardHandler)}
		stepper := dispatch.NewStepper(cfg, s, s, push.Registry{notification.ChannelLog: inside.slow(time.Second)})
		var deliveries sync.WaitGroup
		for range 2 {
			if err := stepper.Round(t.Context(), 0, 1, deliveries.Go); err != nil {
				t.Fatal(err)
			}
		}
		deliveries.Wait()
		if inside.peak() != 3 || len(s.settled()) != 3 {
			t.Errorf("%d at once, %d settled, want 3", inside.peak(), len(s.settled()))
		}
	})
}
