package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/push"
)

// Deliveries begin in the order in which they were granted.
func TestGrantsAreDeliveredInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var order []string
		started := make(chan string, 100)
		for user := range 3 {
			var all []*dispatch.Grant
			for i := range 4 {
				g := granted()
				g.Notification.ID = fmt.Sprintf("%d-%d", user, i)
				g.StartIn = time.Duration(user*4+i) * time.Millisecond
				all = append(all, g)
			}
			s.wake(fmt.Sprint(user), grant(all...))
		}
		b := newBench(dispatch.Config{}, s, func(_ context.Context, m push.Message) error {
			started <- m.ID
			return nil
		})
		b.await()
		b.Stop()
		close(started)
		for id := range started {
			order = append(order, id)
		}
		if len(order) != 12 || !slices.IsSorted(order) {
			t.Errorf("delivered in the order %v", order)
		}
	})
}

// A grant that can't be claimed, or must not be delivered, is nobody's any more, and takes no token.
func TestGrantsThatAreNotClaimed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"must not go out": {},
		"away": {err: errAway, want: []string{
			`level=WARN msg="could not claim a grant; the notification will be granted again when its lease ends, if not sooner" partition=0 error="the store is away"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.claim = func(context.Context, *dispatch.Grant) (bool, error) { return false, test.err }
				b := deliver(dispatch.Config{}, s, granted(), sends)
				if len(b.journal.sends())+len(s.settled()) != 0 {
					t.Errorf("%d sent, %d settled, want none", len(b.journal.sends()), len(s.settled()))
				}
				if diff := cmp.Diff(test.want, b.ledger.Lines()); diff != "" {
					t.Errorf("log differs (-want +got):\n%s", diff)
				}
				b.wantTokens(t, 0)
			})
		})
	}
}

// A grant is for its moment. When the process was kept from it for too long, the windows may have moved on: it is
// given back uncounted.
func TestLateGrantIsReturned(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg     dispatch.Config
		kept    time.Duration
		startIn time.Duration
		returns bool
	}{
		"just in time":             {kept: 250 * time.Millisecond},
		"too late":                 {kept: 250*time.Millisecond + 1, returns: true},
		"in time for what's ahead": {kept: 260 * time.Millisecond, startIn: 10 * time.Millisecond},
		"too late for what's past": {kept: 261 * time.Millisecond, startIn: 10 * time.Millisecond, returns: true},
		"with a limit of its own":  {cfg: dispatch.Config{Stale: time.Second}, kept: 999 * time.Millisecond},
		"too late for its own": {
			cfg: dispatch.Config{Stale: time.Second}, kept: 1001 * time.Millisecond, returns: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.claim = func(context.Context, *dispatch.Grant) (bool, error) { pass(test.kept); return true, nil }
				g := granted()
				g.StartIn = test.startIn
				b := deliver(test.cfg, s, g, sends)
				want, sends, deferrals := dispatch.Outcome{
					Disposition: dispatch.Delivered, Reason: "delivered",
				}, 1, []string(nil)
				if test.returns {
					want, sends, deferrals = dispatch.Outcome{
						Disposition: dispatch.Returned, Reason: "late", Refund: true,
					}, 0, []string{"chat: late, 1"}
				}
				if diff := cmp.Diff([]dispatch.Outcome{want}, s.settled()); diff != "" {
					t.Errorf("outcomes differ (-want +got):\n%s", diff)
				}
				if len(b.journal.sends()) != sends || !slices.Equal(b.journal.Deferral, deferrals) {
					t.Errorf("%d sent, deferred %v", len(b.journal.sends()), b.journal.Deferral)
				}
			})
		})
	}
}

// How late a delivery is counts from its slot, however long ago that was, not from the moment that it got in the end.
// While its partition was paused it could not go.
func TestLatenessCountsFromTheSlot(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		startIn, slotIn time.Duration
		resumed         time.Duration // before the delivery; 0: there was no pause
		want            time.Duration
	}{
		"at its slot":            {},
		"a standstill":           {slotIn: -34 * time.Second, want: 34 * time.Second},
		"a slot ahead":           {startIn: 5 * ms, slotIn: 5 * ms},
		"after a pause":          {slotIn: -34 * time.Second, resumed: 2 * time.Second, want: 2 * time.Second},
		"a slot after the pause": {slotIn: -20 * ms, resumed: 2 * time.Second, want: 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := dispatch.Config{Resumed: func(int) time.Time {
					if test.resumed == 0 {
						return time.Time{}
					}
					return time.Now().Add(-test.resumed)
				}}
				g := granted()
				g.StartIn, g.SlotIn = test.startIn, test.slotIn
				sends := func(context.Context, push.Message) error { return nil }
				sent := deliver(cfg, newStore(), g, sends).journal.sends()
				if len(sent) != 1 || sent[0].Lateness != test.want {
					t.Errorf("sent %+v, want one that is %s late", sent, test.want)
				}
			})
		})
	}
}

// A reply that took long tells of an admission that may be as old: the grant is returned, unless replies always take
// that long.
func TestSlowRepliesAreLate(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	for name, test := range map[string]struct {
		latencies []time.Duration // the last of them for ever
		before    time.Duration   // how long the sender waits before it calls
		handled   int
		returned  int
		lateness  time.Duration // of the worst delivery
	}{
		"one reply of 3 s": {
			latencies: []time.Duration{3 * time.Second, 0}, handled: 1, returned: 1,
		},
		"just in time": {latencies: []time.Duration{250 * ms}, handled: 3, lateness: 250 * ms},
		"a network of 600 ms": {
			latencies: []time.Duration{600 * ms}, handled: 20, returned: 2, lateness: 600 * ms,
		},
		"a network of 5 s": {
			latencies: []time.Duration{5 * time.Second}, handled: 20, returned: 5, lateness: 5 * time.Second,
		},
		"slow for a while, then one of 400 ms": {
			latencies: []time.Duration{600 * ms, 600 * ms, 600 * ms, 0, 400 * ms, 0},
			handled:   3, returned: 3, lateness: 600 * ms,
		},
		"a limiter of 200 ms before each call": {
			latencies: []time.Duration{200 * ms}, before: 200 * ms, handled: 20, returned: 1, lateness: 400 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, worst, latencies := newStore(), time.Duration(0), test.latencies
				s.after = func(_ context.Context, r dispatch.TakeRequest) error {
					if len(r.Wakeups) > 0 {
						pass(latencies[0])
						latencies = latencies[min(1, len(latencies)-1):]
					}
					return nil
				}
				sendings := 0
				s.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
					if sendings < test.handled {
						s.wake("u-1", grant(granted()))
					}
					return dispatch.Settlement{}, nil
				}
				s.perform(0, "u-1", func(dispatch.TakeRequest) (turn, bool) { return grant(granted()), true })
				b := newBench(dispatch.Config{}, s, func(_ context.Context, m push.Message) error {
					pass(test.before)
					if !m.Deadline.Begin() {
						return push.Late()
					}
					sendings++
					worst = max(worst, time.Since(m.AdmittedAt))
					return nil
				})
				pass(3 * time.Minute)
				b.Stop()
				returned := 0
				for _, o := range s.settled() {
					if o.Disposition == dispatch.Returned {
						returned++
					}
				}
				if returned != test.returned || sendings != test.handled || worst != test.lateness {
					t.Errorf("%d returned, %d sent, the worst %s late; want %d, %d, %s", returned, sendings, worst,
						test.returned, test.handled, test.lateness)
				}
			})
		})
	}
}

// Many grants of a partition are under way when the store stalls. All of them are late, not only the first few, whose
// lateness would excuse that of the others.
func TestOneStallExcusesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const underWay = 40
		stalled, s := make(chan struct{}), newStore()
		s.claim = func(context.Context, *dispatch.Grant) (bool, error) { <-stalled; return true, nil }
		for i := range underWay {
			s.wake(fmt.Sprint(i), grant(granted()))
		}
		var late atomic.Int64
		b := newBench(dispatch.Config{}, s, func(_ context.Context, m push.Message) error {
			if time.Since(m.AdmittedAt) > 250*time.Millisecond {
				late.Add(1)
			}
			return nil
		})
		pass(3 * time.Second)
		close(stalled)
		b.await()
		b.Stop()
		if n := late.Load(); n != 0 || len(s.settled()) != underWay {
			t.Errorf("%d of %d grants that stalled for 3 s were sent late", n, len(s.settled()))
		}
	})
}

// Each delivery is traced once it is complete, with the times of its admission, and told its outcome.
func TestDeliveriesAreTraced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var told []dispatch.Outcome
		s, start := newStore(), time.Now()
		s.claim = func(_ context.Context, g *dispatch.Grant) (bool, error) {
			g.Notification.TraceParent = "00-1"
			return true, nil
		}
		s.after = func(context.Context, dispatch.TakeRequest) error { pass(20 * time.Millisecond); return nil }
		cfg := dispatch.Config{}
		cfg.Trace = func(
			ctx context.Context, g *dispatch.Grant, asked, replied time.Time,
		) (context.Context, func(dispatch.Outcome)) {
			askedIn, repliedIn := asked.Sub(start), replied.Sub(start)
			if g.Notification.TraceParent != "00-1" || askedIn != 20*time.Millisecond ||
				repliedIn != 40*time.Millisecond {
				t.Errorf("traced %q, asked %s, replied %s", g.Notification.TraceParent, askedIn, repliedIn)
			}
			return context.WithValue(ctx, key{}, "traced"), func(o dispatch.Outcome) { told = append(told, o) }
		}
		s.wake("u-1", grant(granted()))
		b := newBench(cfg, s, func(ctx context.Context, _ push.Message) error {
			if ctx.Value(key{}) != "traced" {
				t.Error("it is sent under another context")
			}
			return nil
		})
		pass(time.Second)
		b.Stop()
		if diff := cmp.Diff(s.settled(), told); diff != "" || len(told) != 1 {
			t.Errorf("told otherwise than settled (-settled +told):\n%s", diff)
		}
	})
}

// A delivery is one line at the debug level, without the content or the target.
func TestDeliveryLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := granted()
		g.Notification.To, g.Notification.Body = "https://secret.example/hook?key=1", "secret"
		l := &ledger{}
		cfg := dispatch.Config{Log: l.logger(slog.LevelDebug)}
		deliver(cfg, newStore(), g, func(context.Context, push.Message) error {
			return &push.Error{Class: push.Transient, Code: "503"}
		})
		want := []string{`level=DEBUG msg=delivery notification_id=n-1 channel=log attempt=1 outcome="transient: 503"`}
		if diff := cmp.Diff(want, l.Lines()); diff != "" {
			t.Errorf("log differs (-want +got):\n%s", diff)
		}
		if slices.ContainsFunc(l.Lines(), func(line string) bool { return strings.Contains(line, "secret") }) {
			t.Error("the log tells the target or the content")
		}
	})
}

func TestChannelWithoutSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, g := newStore(), granted()
		g.Notification.Channel = "fcm"
		deliver(dispatch.Config{}, s, g, sends)
		want := []dispatch.Outcome{{
			Disposition: dispatch.Retry, Reason: "transient: channel_not_configured", RetryAfter: time.Second,
			Refund: true, Failure: true, Behind: true,
		}}
		if diff := cmp.Diff(want, s.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
	})
}
