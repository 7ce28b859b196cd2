package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// The whole way of a throttled tick: pulled, held in place, asked again shortly before its slot, run in its moment.
func TestHoldsUntilTheSlotAndRunsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		admitted := start.Add(time.Second)
		var got push.Message
		var sentAt time.Time
		second := granted()
		second.Grant.StartIn, second.Grant.AdmittedAt, second.Grant.Attempt = 5*time.Millisecond, admitted, 2
		r := &record{take: answers(wait(time.Second), second)}
		b := newBench(dispatch.Config{}, r, func(_ context.Context, m push.Message) error {
			got, sentAt = m, time.Now()
			pass(70 * time.Millisecond) // the provider's time, in the bubble
			return nil
		})
		if err := b.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		if !sentAt.Equal(admitted) {
			t.Errorf("sent %s after its slot", sentAt.Sub(admitted))
		}
		want := push.Message{Notification: second.Grant.Notification, Attempt: 2, AdmittedAt: admitted}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("message differs (-want +got):\n%s", diff)
		}
		asked := r.questions()
		wantAsked := []question{
			{dispatch.Question{Tick: tick, Pulled: true}, start},
			{dispatch.Question{Tick: tick, Pulled: false}, admitted.Add(-5 * time.Millisecond)},
		}
		if len(asked) == 2 && (asked[0].Nonce == "" || asked[0].Nonce == asked[1].Nonce) {
			t.Errorf("two questions are called %q and %q, want different names", asked[0].Nonce, asked[1].Nonce)
		}
		if diff := cmp.Diff(wantAsked, asked, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Nonce" }, cmp.Ignore())); diff != "" {
			t.Errorf("questions differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]dispatch.Outcome{{Fate: dispatch.Delivered, Reason: "delivered"}}, r.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
		wantJournal := &journal{
			Pulls: 1, Took: []time.Duration{0, 0}, Deferral: []string{"chat: 1 per 1s"},
			Sends: []sent{{ID: "n-1", Provider: 70 * time.Millisecond, EndToEnd: 1070 * time.Millisecond, Class: "delivered"}},
		}
		if diff := cmp.Diff(wantJournal, b.journal, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".mu" }, cmp.Ignore())); diff != "" {
			t.Errorf("the observer was told otherwise (-want +got):\n%s", diff)
		}
	})
}

// A wait for a retry or a send_at is no throttling: nobody else's slot is at stake, so there is nothing to be early for,
// and no deferral is reported.
func TestWaitWithoutRuleEndsExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &record{take: answers(dispatch.Answer{Wait: &dispatch.Wait{For: 700 * time.Millisecond}}, dispatch.Answer{})}
		b := newBench(dispatch.Config{}, r, sends)
		if err := b.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		wantClock(t, "asked again", start, 700*time.Millisecond)
		if len(b.journal.Deferral) != 0 {
			t.Errorf("deferrals are reported: %v", b.journal.Deferral)
		}
	})
}

// A tick that asks again and has to wait again is pulled and deferred once.
func TestDeferralIsReportedOncePerPull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &record{take: answers(wait(time.Second), wait(0), wait(-time.Second), wait(time.Second), dispatch.Answer{})}
		b := newBench(dispatch.Config{}, r, sends)
		if err := b.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		if b.journal.Pulls != 1 || len(b.journal.Deferral) != 1 || len(b.journal.Took) != 5 {
			t.Errorf("%d pulls, %d deferrals, %d decisions are reported, want 1, 1, 5", b.journal.Pulls, len(b.journal.Deferral), len(b.journal.Took))
		}
		wantClock(t, "done", start, 2*995*time.Millisecond)
	})
}

func TestDefersWhatWaitsLongerThanItMayHold(t *testing.T) {
	t.Parallel()
	const hold = 1500 * time.Millisecond
	for name, test := range map[string]struct {
		cfg  dispatch.Config
		wait time.Duration
		held bool
	}{
		"by default, at the limit":        {dispatch.Config{}, hold, true},
		"by default, just above":          {dispatch.Config{}, hold + 1, false},
		"by default, hours":               {dispatch.Config{}, 5 * time.Hour, false},
		"with a hold of its own":          {dispatch.Config{Hold: 10 * time.Second}, 10 * time.Second, true},
		"just above a hold of its own":    {dispatch.Config{Hold: 10 * time.Second}, 10*time.Second + 1, false},
		"with an early start of its own":  {dispatch.Config{Early: 300 * time.Millisecond}, hold, true},
		"shorter than its early start is": {dispatch.Config{Early: 300 * time.Millisecond}, 200 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const latency = 30 * time.Millisecond
				start := time.Now()
				next := answers(wait(test.wait), dispatch.Answer{})
				r := &record{take: func(ctx context.Context, q dispatch.Question) (dispatch.Answer, error) {
					if q.Pulled {
						pass(latency) // the round trip, in the bubble: the wait begins with the answer
					}
					return next(ctx, q)
				}}
				b := newBench(test.cfg, r, sends)
				err := b.Handle(t.Context(), tick)
				if test.held {
					if err != nil {
						t.Fatal(err)
					}
					early := max(test.cfg.Early, 5*time.Millisecond)
					wantClock(t, "asked again", start, latency+max(0, test.wait-early))
					return
				}
				wantDeferral(t, err, start.Add(latency+test.wait))
				wantClock(t, "deferred", start, latency)
			})
		})
	}
}

// However long the queue takes over an extra tick: a wait counts from the answer.
func TestWaitCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := wait(time.Minute)
		answer.Extra = &dispatch.Alarm{Tick: tick}
		b := newBench(dispatch.Config{}, &record{take: answers(answer)}, sends)
		b.queue.enqueue = func() error {
			pass(3 * time.Second)
			return nil
		}
		start := time.Now()
		wantDeferral(t, b.Handle(t.Context(), tick), start.Add(time.Minute))
	})
}

func TestNothingLeftUsesTheTickUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(dispatch.Config{}, &record{take: answers(dispatch.Answer{})}, nil)
		if err := b.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		if len(b.record.settled())+len(b.journal.Sends) != 0 {
			t.Error("something was sent or settled")
		}
	})
}

func TestRecordThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &record{take: func(context.Context, dispatch.Question) (dispatch.Answer, error) { return dispatch.Answer{}, errAway }}
		b := newBench(dispatch.Config{}, r, sends)
		err := b.Handle(t.Context(), tick)
		if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "category chat in lane 3") {
			t.Errorf("Handle gives %q, want the record's error with category and lane", err)
		}
		if strings.Contains(err.Error(), tick.UserID) {
			t.Errorf("the error names the user: %q", err)
		}
		if _, deferred := errors.AsType[*dispatch.DeferralError](err); deferred {
			t.Error("a record that is away counts as a deferral")
		}
		if b.RoomTaken() != 0 || len(b.journal.Took) != 0 {
			t.Errorf("room taken: %d, decisions: %v; want none", b.RoomTaken(), b.journal.Took)
		}
	})
}

// A record that is away fails every tick, which is told; what is deferred has not failed.
func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &record{take: func(context.Context, dispatch.Question) (dispatch.Answer, error) { return dispatch.Answer{}, errAway }}
		b := newBench(dispatch.Config{}, r, sends)
		if err := b.Handle(t.Context(), tick); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		b.Stop()
		if err := b.Handle(t.Context(), tick); err == nil {
			t.Fatal("a stopped dispatcher takes a tick")
		}
		if lines := b.ledger.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "a tick failed") {
			t.Errorf("a failure and a deferral told: %.300q", lines)
		}
	})
}

// A grant is for its moment. When the process was kept from it for too long, the windows may have moved on: it is given
// back uncounted, and the tick asks again.
func TestLateGrantIsReturned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg     dispatch.Config
		kept    time.Duration
		startIn time.Duration
		returns bool
	}{
		"just in time":             {dispatch.Config{}, 250 * time.Millisecond, 0, false},
		"too late":                 {dispatch.Config{}, 250*time.Millisecond + 1, 0, true},
		"in time for what's ahead": {dispatch.Config{}, 260 * time.Millisecond, 10 * time.Millisecond, false},
		"too late for what's past": {dispatch.Config{}, 261 * time.Millisecond, 10 * time.Millisecond, true},
		"with a limit of its own":  {dispatch.Config{Stale: time.Second}, 999 * time.Millisecond, 0, false},
		"too late for its own":     {dispatch.Config{Stale: time.Second}, 1001 * time.Millisecond, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// The queue takes its time over an extra tick between the answer and the start.
				first := granted()
				first.Extra = &dispatch.Alarm{Tick: tick}
				first.Grant.StartIn = test.startIn
				r := &record{take: answers(first, granted())}
				b := newBench(test.cfg, r, sends)
				b.queue.enqueue = func() error {
					pass(test.kept) // a slow queue, in the bubble
					return nil
				}
				if err := b.Handle(t.Context(), tick); err != nil {
					t.Fatal(err)
				}
				want := []dispatch.Outcome{{Fate: dispatch.Delivered, Reason: "delivered"}}
				if test.returns {
					want = append([]dispatch.Outcome{{Fate: dispatch.Returned, Reason: "late", Refund: true}}, want...)
				}
				if diff := cmp.Diff(want, r.settled()); diff != "" {
					t.Errorf("outcomes differ (-want +got):\n%s", diff)
				}
				if len(b.journal.Sends) != 1 {
					t.Errorf("sent %d times, want once", len(b.journal.Sends))
				}
				if asked := r.questions(); asked[len(asked)-1].Pulled == test.returns {
					t.Errorf("the last question says that the tick was just pulled: %t", !test.returns)
				}
			})
		})
	}
}

func TestLateGrantThatCannotBeReturnedIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := granted()
		first.Extra = &dispatch.Alarm{Tick: tick}
		r := &record{
			take: answers(first),
			settle: func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
				return dispatch.Settlement{}, errAway
			},
		}
		b := newBench(dispatch.Config{}, r, sends)
		b.queue.enqueue = func() error {
			pass(time.Second) // a slow queue, in the bubble
			return nil
		}
		if err := b.Handle(t.Context(), tick); !errors.Is(err, errAway) {
			t.Errorf("Handle gives %v, want the record's error", err)
		}
		if len(b.journal.Sends) != 0 || b.RoomTaken() != 0 || b.InFlight() != 0 {
			t.Errorf("sends: %d, room taken: %d, in flight: %d; want none", len(b.journal.Sends), b.RoomTaken(), b.InFlight())
		}
	})
}

func TestExtraTickIsEnqueued(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{"": nil, "although the queue is away": errors.New("the queue is away")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				extra := dispatch.Alarm{Tick: dispatch.Tick{ID: "t-7", Mailbox: tick.Mailbox}, After: 3 * time.Second}
				answer := granted()
				answer.Extra = &extra
				b := newBench(dispatch.Config{}, &record{take: answers(answer)}, sends)
				b.queue.enqueue = func() error { return fault }
				if err := b.Handle(t.Context(), tick); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]dispatch.Alarm{extra}, b.queue.put); diff != "" {
					t.Errorf("enqueued ticks differ (-want +got):\n%s", diff)
				}
				if len(b.journal.Sends) != 1 {
					t.Errorf("sent %d times, want once", len(b.journal.Sends))
				}
				var want []string
				if fault != nil {
					want = []string{`level=WARN msg="enqueue an extra tick; the sweeper will replace it" lane=3 error="the queue is away"`}
				}
				if diff := cmp.Diff(want, b.ledger.Lines()); diff != "" {
					t.Errorf("log differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// How late a delivery is counts from the slot that the tick was told, not from the moment that it got in the end.
func TestLatenessCountsFromTheSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The room is full when the slot comes: the grant is 400 ms later than the slot.
		release := make(chan struct{})
		second := tick
		second.ID = "n-2"
		first := answers(granted())
		rest := answers(wait(time.Second), granted())
		r := &record{take: func(ctx context.Context, q dispatch.Question) (dispatch.Answer, error) {
			if q.ID == tick.ID {
				return first(ctx, q)
			}
			return rest(ctx, q)
		}}
		sendings := 0
		b := newBench(dispatch.Config{Concurrency: 1}, r, func(context.Context, push.Message) error {
			if sendings++; sendings == 1 {
				<-release
			}
			return nil
		})
		waiting := b.start(t.Context(), second)
		synctest.Wait()
		busy := b.start(t.Context(), tick)
		pass(1400 * time.Millisecond) // in the bubble
		close(release)
		if err := errors.Join(finished(t, busy), finished(t, waiting)); err != nil {
			t.Fatal(err)
		}
		if got := b.journal.Sends[1].Lateness; got != 400*time.Millisecond {
			t.Errorf("%s late, want 400ms", got)
		}
	})
}

func TestChannelWithoutSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := granted()
		answer.Grant.Notification.Channel = notification.ChannelFCM
		b := newBench(dispatch.Config{}, &record{take: answers(answer)}, sends)
		if err := b.Handle(t.Context(), tick); err != nil {
			t.Fatal(err)
		}
		want := []dispatch.Outcome{{
			Fate: dispatch.Retry, Reason: "transient: channel_not_configured", RetryAfter: time.Second, Refund: true, Failure: true,
		}}
		if diff := cmp.Diff(want, b.record.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
	})
}

// A mailbox counts on its extra tick even when the grant beside it could not be used.
func TestExtraTickIsEnqueuedBesideAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		extra := dispatch.Alarm{Tick: dispatch.Tick{ID: "~extra", Mailbox: tick.Mailbox}, After: time.Second}
		r := &record{take: func(context.Context, dispatch.Question) (dispatch.Answer, error) {
			return dispatch.Answer{Extra: &extra}, errAway
		}}
		b := newBench(dispatch.Config{}, r, sends)
		if err := b.Handle(t.Context(), tick); !errors.Is(err, errAway) {
			t.Errorf("Handle gives %v, want the record's error", err)
		}
		if diff := cmp.Diff([]dispatch.Alarm{extra}, b.queue.put); diff != "" {
			t.Errorf("enqueued ticks differ (-want +got):\n%s", diff)
		}
	})
}

// slowly gives grants after these times, the last of them for ever.
func slowly(latencies ...time.Duration) func(context.Context, dispatch.Question) (dispatch.Answer, error) {
	return func(context.Context, dispatch.Question) (dispatch.Answer, error) {
		answer := granted()
		answer.Grant.AdmittedAt = time.Now()
		pass(latencies[0]) // the limiter has admitted it; the claim, or the way back, takes its time
		latencies = latencies[min(1, len(latencies)-1):]
		return answer, nil
	}
}

// An answer that took long tells of an admission that may be as old: it is given back, unless it always takes that long.
func TestSlowAnswersAreLate(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	for name, test := range map[string]struct {
		latencies []time.Duration
		handled   int
		returned  int
		lateness  time.Duration // of the worst delivery
	}{
		"one claim of 3 s":    {[]time.Duration{3 * time.Second, 0}, 1, 1, 0},
		"just in time":        {[]time.Duration{250 * ms}, 3, 0, 250 * ms},
		"a network of 600 ms": {[]time.Duration{600 * ms}, 20, 2, 600 * ms},
		"a network of 5 s":    {[]time.Duration{5 * time.Second}, 20, 5, 5 * time.Second},
		"slow for a while, then one claim of 400 ms": {[]time.Duration{600 * ms, 600 * ms, 600 * ms, 0, 400 * ms, 0}, 3, 3, 600 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				worst := time.Duration(0)
				r := &record{take: slowly(test.latencies...)}
				b := newBench(dispatch.Config{}, r, func(_ context.Context, m push.Message) error {
					worst = max(worst, time.Since(m.AdmittedAt))
					return nil
				})
				for range test.handled {
					if err := b.Handle(t.Context(), tick); err != nil {
						t.Fatal(err)
					}
				}
				returned := 0
				for _, o := range r.settled() {
					if o.Fate == dispatch.Returned {
						returned++
					}
				}
				if returned != test.returned || len(b.journal.Sends) != test.handled || worst != test.lateness {
					t.Errorf("%d returned, %d sent, the worst %s late; want %d, %d, %s", returned, len(b.journal.Sends), worst,
						test.returned, test.handled, test.lateness)
				}
			})
		})
	}
}

// Many grants of a lane are under way when it stalls. All of them are late, not only the first few, whose lateness would
// excuse that of the others; and the lane goes on at once afterwards.
func TestOneStallExcusesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const underWay = 40
		stalled := make(chan struct{})
		var asked atomic.Int64
		r := &record{take: func(context.Context, dispatch.Question) (dispatch.Answer, error) {
			answer := granted()
			answer.Grant.AdmittedAt = time.Now()
			if asked.Add(1) <= underWay {
				<-stalled
			} else {
				pass(time.Millisecond) // every grant that stalled is judged before the first that did not
			}
			return answer, nil
		}}
		var late atomic.Int64
		b := newBench(dispatch.Config{}, r, func(_ context.Context, m push.Message) error {
			if time.Since(m.AdmittedAt) > 250*time.Millisecond {
				late.Add(1)
			}
			return nil
		})
		var handling sync.WaitGroup
		for range underWay {
			handling.Go(func() {
				if err := b.Handle(t.Context(), tick); err != nil {
					t.Error(err)
				}
			})
		}
		pass(3 * time.Second)
		close(stalled)
		handling.Wait()
		if n := late.Load(); n != 0 {
			t.Errorf("%d of %d grants that stalled for 3 s were sent late", n, underWay)
		}
	})
}
