package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// A result is worth several tries: what was sent and not written is sent again when the lease ends.
func TestSettleIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var at []time.Duration
		start := time.Now()
		r := &record{take: answers(granted())}
		r.settle = func(ctx context.Context, _ *dispatch.Grant, _ dispatch.Outcome) (dispatch.Settlement, error) {
			at = append(at, time.Since(start))
			if ctx.Err() != nil {
				return dispatch.Settlement{}, ctx.Err()
			}
			if len(at) < 5 {
				return dispatch.Settlement{}, errAway
			}
			return dispatch.Settlement{}, nil
		}
		b := newBench(dispatch.Config{}, r, func(context.Context, push.Message) error {
			cancel() // the tick's own context is gone before the result is written
			return nil
		})
		if err := b.Handle(ctx, tick); err != nil {
			t.Fatal(err)
		}
		ms := time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 150 * ms}, at); diff != "" {
			t.Errorf("settled at these times (-want +got):\n%s", diff)
		}
		for _, o := range r.settled() {
			if o.Fate != dispatch.Delivered {
				t.Errorf("one of the tries says %+v", o)
			}
		}
		if len(b.journal.Sends) != 1 {
			t.Errorf("sent %d times, want once", len(b.journal.Sends))
		}
	})
}

func TestSettleIsGivenUpInTime(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
		return dispatch.Settlement{}, errAway
	}
	hangs := func(ctx context.Context, _ *dispatch.Grant, _ dispatch.Outcome) (dispatch.Settlement, error) {
		<-ctx.Done()
		return dispatch.Settlement{}, errors.Join(errAway, ctx.Err())
	}
	for name, test := range map[string]struct {
		cfg    dispatch.Config
		settle func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error)
		want   time.Duration
	}{
		"a record that refuses, by default": {dispatch.Config{}, fails, 30 * time.Second},
		"a record that refuses, as set":     {dispatch.Config{SettleTimeout: 100 * time.Millisecond}, fails, 100 * time.Millisecond},
		"a record that hangs":               {dispatch.Config{}, hangs, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(test.cfg, &record{take: answers(granted()), settle: test.settle}, sends)
				start := time.Now()
				err := b.Handle(t.Context(), tick)
				wantClock(t, "given up", start, test.want)
				if !errors.Is(err, errAway) || !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "settle notification n-1: ") {
					t.Errorf("Handle gives %q, want the record's error, the time-out and the notification", err)
				}
				if b.RoomTaken() != 0 || b.InFlight() != 0 {
					t.Errorf("room taken: %d, in flight: %d; want none", b.RoomTaken(), b.InFlight())
				}
			})
		})
	}
}

// While a result can't be written, its delivery stays this worker's; and once the dispatcher stops, the tries end soon.
func TestWhileItCantBeSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &record{take: answers(granted())}
		r.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
			return dispatch.Settlement{}, errAway
		}
		r.extend = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		b := newBench(dispatch.Config{Farewell: 5 * time.Second}, r, sends)
		start := time.Now()
		done := b.start(t.Context(), tick)
		pass(14 * time.Second)
		unfinished(t, done)
		if b.InFlight() != 1 || b.RoomTaken() != 1 {
			t.Errorf("%d in flight, %d places taken", b.InFlight(), b.RoomTaken())
		}
		extended := r.extensions()
		for i, at := range extended {
			if i > 0 && at.Sub(extended[i-1]) > 5*time.Second {
				t.Errorf("extended after %s and %s", extended[i-1].Sub(start), at.Sub(start))
			}
		}
		if len(extended) < 3 {
			t.Errorf("extended %d times", len(extended))
		}
		b.Stop()
		pass(5*time.Second + time.Millisecond)
		if err := finished(t, done); !errors.Is(err, errAway) {
			t.Errorf("Handle gives %v", err)
		}
	})
}

func TestSettlementDecidesWhatBecomesOfTheTick(t *testing.T) {
	t.Parallel()
	settled := func(s dispatch.Settlement) *record {
		return &record{take: answers(granted()), settle: func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) { return s, nil }}
	}
	t.Run("serves the retry", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(dispatch.Config{}, settled(dispatch.Settlement{RetryIn: 90 * time.Second}), sends)
			wantDeferral(t, b.Handle(t.Context(), tick), time.Now().Add(90*time.Second))
		})
	})
	t.Run("is used up by a stale result", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := newBench(dispatch.Config{}, settled(dispatch.Settlement{Stale: true, RetryIn: time.Second}), sends)
			if err := b.Handle(t.Context(), tick); err != nil {
				t.Error(err)
			}
			want := []string{`level=WARN msg="result came after the lease had ended; it was not written" notification_id=n-1 attempt=1`}
			if diff := cmp.Diff(want, b.ledger.Lines()); diff != "" {
				t.Errorf("log differs (-want +got):\n%s", diff)
			}
		})
	})
}

// A delivery is one line at the debug level, without the content or the target.
func TestDeliveryLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := granted()
		answer.Grant.Notification.To, answer.Grant.Notification.Body = "https://secret.example/hook?key=1", "secret"
		l := &ledger{}
		d := dispatch.New(dispatch.Config{Retry: retries, Log: l.logger(slog.LevelDebug)}, &record{take: answers(answer)}, &lines{},
			push.Registry{notification.ChannelLog: sender(func(context.Context, push.Message) error {
				return &push.Error{Class: push.Transient, Code: "503", Err: errors.New("secret")}
			})})
		if err := d.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		want := []string{`level=DEBUG msg=delivery notification_id=n-1 channel=log attempt=1 outcome="transient: 503"`}
		if diff := cmp.Diff(want, l.Lines()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
		if slices.ContainsFunc(l.Lines(), func(line string) bool { return strings.Contains(line, "secret") }) {
			t.Error("the log tells the target or the content")
		}
	})
}
