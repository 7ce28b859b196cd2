package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// The whole way of a wake-up: pulled, asked for, held in place, asked for again shortly before its slot without
// another pull, and its notification sent in its moment.
func TestHoldsUntilTheSlotAndDeliversThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		admitted := start.Add(time.Second)
		var got push.Message
		var sentAt time.Time
		g := granted()
		g.StartIn, g.SlotIn, g.AdmittedAt, g.Attempt = early, early, admitted, 2
		s := newStore()
		s.wake("u-1", hold(time.Second), grant(g))
		passive := func(_ *notification.Notification, at time.Time) bool { return at.Equal(admitted) }
		b := newBench(dispatch.Config{Passive: passive}, s, func(_ context.Context, m push.Message) error {
			got, sentAt = m, time.Now()
			pass(70 * time.Millisecond) // the provider's time, in the bubble
			return nil
		})
		pass(time.Second)
		b.await()
		b.Stop()
		if !sentAt.Equal(admitted) {
			t.Errorf("sent %s after its slot", sentAt.Sub(admitted))
		}
		if diff := cmp.Diff(push.Message{
			Notification: g.Notification, Attempt: 2, AdmittedAt: admitted, Passive: true,
		}, got, cmpopts.IgnoreFields(push.Message{}, "Deadline")); diff != "" {
			t.Errorf("message differs (-want +got):\n%s", diff)
		}
		w := []dispatch.Wakeup{{UserID: "u-1", Generation: 1, Categories: []string{"chat"}}}
		want := []asked{
			{TakeRequest: dispatch.TakeRequest{Capacity: 100, Pull: 32}, At: start},
			{TakeRequest: dispatch.TakeRequest{Capacity: 100, Wakeups: w}, At: start},
			{TakeRequest: dispatch.TakeRequest{Capacity: 100, Wakeups: w}, At: admitted.Add(-early)},
		}
		rounds := s.asks()
		if diff := cmp.Diff(want, rounds, cmpopts.IgnoreFields(dispatch.TakeRequest{}, "ID")); diff != "" {
			t.Errorf("rounds differ (-want +got):\n%s", diff)
		}
		names := map[string]bool{}
		for _, r := range rounds {
			names[r.ID] = true
		}
		if len(names) != len(rounds) || names[""] {
			t.Errorf("%d rounds have the names %v", len(rounds), names)
		}
		if diff := cmp.Diff([]dispatch.Outcome{
			{Disposition: dispatch.Delivered, Reason: "delivered", Took: 70 * time.Millisecond},
		}, s.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
		wantJournal := &journal{
			Pulls: 1, Took: []time.Duration{0, 0},
			Sends: []sent{
				{ID: "n-1", Provider: 70 * time.Millisecond, EndToEnd: 1070 * time.Millisecond, Class: "delivered"},
			},
		}
		if diff := cmp.Diff(wantJournal, b.journal, cmpopts.IgnoreUnexported(journal{})); diff != "" {
			t.Errorf("the observer was told otherwise (-want +got):\n%s", diff)
		}
		b.wantTokens(t, 0)
	})
}

// What waits for a rule is asked for early, what waits for a retry or a send_at exactly at its moment; and a wait
// counts from the answer.
func TestWhenAHeldWakeupIsAskedFor(t *testing.T) {
	t.Parallel()
	const latency = 30 * time.Millisecond
	for name, test := range map[string]struct {
		cfg   dispatch.Config
		after time.Duration
		rule  string
		want  time.Duration // after the reply
	}{
		"for a rule": {after: time.Second, rule: "1 per 1s", want: time.Second - early},
		"with an early of its own": {
			cfg:   dispatch.Config{Early: 300 * time.Millisecond},
			after: time.Second, rule: "1 per 1s", want: 700 * time.Millisecond,
		},
		"sooner than early":  {after: 3 * time.Millisecond, rule: "1 per 1s"},
		"for a retry":        {after: 700 * time.Millisecond, want: 700 * time.Millisecond},
		"at once":            {},
		"since a moment ago": {after: -time.Second, rule: "1 per 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.after = func(context.Context, dispatch.TakeRequest) error { pass(latency); return nil }
				s.wake("u-1", turn{
					WakeupResult: dispatch.WakeupResult{
						Held: true, After: test.after, Rule: test.rule, Categories: []string{"chat", "news"},
					},
				})
				b := newBench(test.cfg, s, sends)
				pass(2 * time.Second)
				b.Stop()
				rounds := s.asks()
				if len(rounds) != 3 {
					t.Fatalf("%d rounds, want 3", len(rounds))
				}
				if got := rounds[2].At.Sub(rounds[1].At) - latency; got != test.want {
					t.Errorf("asked again %s after the reply, want %s", got, test.want)
				}
				want := []dispatch.Wakeup{{UserID: "u-1", Generation: 1, Categories: []string{"chat", "news"}}}
				if diff := cmp.Diff(want, rounds[2].Wakeups); diff != "" {
					t.Errorf("asked again for others (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Of those that are due the first comes first, and one round asks for a bounded number. Nobody has to signal more than
// once while pulls come back full.
func TestManyWakeups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		s := newStore()
		for i := range n {
			s.wake(fmt.Sprintf("u-%03d", i), hold(time.Second-time.Duration(i)*time.Millisecond))
		}
		b := newBench(dispatch.Config{}, s, sends)
		pass(2 * time.Second)
		b.Stop()
		if b.journal.pulls() != n {
			t.Errorf("%d pulled, want %d", b.journal.pulls(), n)
		}
		var order []string
		for _, r := range s.asks() {
			if len(r.Wakeups) > 32 || r.Pull > 32 || len(r.Wakeups) > r.Capacity {
				t.Errorf("a round asks for %d, and pulls %d, with %d tokens", len(r.Wakeups), r.Pull, r.Capacity)
			}
			for _, w := range r.Wakeups {
				order = append(order, w.UserID)
			}
		}
		if len(order) != 2*n {
			t.Fatalf("%d were asked for, want each of %d twice", len(order), n)
		}
		if first := order[:n]; !slices.IsSorted(first) {
			t.Errorf("asked in the order %v, want as they were pulled", first)
		}
		again := slices.Clone(order[n:])
		slices.Reverse(again)
		if !slices.IsSorted(again) {
			t.Errorf("asked again in the order %v, want as they were due", order[n:])
		}
	})
}

// Those that are due at once are asked for in one round, as far as that goes.
func TestDueTogetherAreAskedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 20 {
			s.wake(fmt.Sprint(i), hold(time.Second))
		}
		b := newBench(dispatch.Config{}, s, sends)
		pass(2 * time.Second)
		b.Stop()
		if rounds := s.asks(); len(rounds) != 3 {
			t.Errorf("%d rounds, want one that pulls and two that ask", len(rounds))
		}
	})
}

// The hand is bounded: what it can't take stays in the queue, for others.
func TestFullHandPullsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 50 {
			s.wake(fmt.Sprint(i), hold(time.Second), hold(time.Second))
		}
		b := newBench(dispatch.Config{Held: 20, Partitions: 2}, s, sends)
		synctest.Wait()
		if b.journal.pulls() != 10 {
			t.Errorf("%d pulled, want its share of 20", b.journal.pulls())
		}
		pass(10 * time.Second)
		b.Stop()
		if b.journal.pulls() != 50 {
			t.Errorf("%d pulled in the end, want all", b.journal.pulls())
		}
	})
}

func TestForeignTasksAreArchived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		faults := []error{errAway, errAway, nil}
		s.archive = func(dispatch.Task) error {
			first := faults[0]
			faults = faults[1:]
			return first
		}
		foreign := dispatch.Task{ID: "email", Message: "…"}
		s.partition(0).foreign = []dispatch.Task{foreign}
		s.wake("u-1", grant(granted()))
		b := newBench(dispatch.Config{}, s, sends)
		pass(time.Second)
		b.Stop()
		if diff := cmp.Diff([]dispatch.Task{foreign, foreign, foreign}, s.archived); diff != "" {
			t.Errorf("archived differ (-want +got):\n%s", diff)
		}
		if len(b.journal.sends()) != 1 || b.journal.pulls() != 2 {
			t.Errorf("%d sent, %d pulled; want 1 and 2", len(b.journal.sends()), b.journal.pulls())
		}
		if log := b.ledger.Lines(); len(log) != 3 || !strings.Contains(log[0], "archiving it") {
			t.Errorf("it logs %q", log)
		}
	})
}

// A partition that has lost its state is left alone for a while, and what was in hand means nothing any more.
func TestLostPartitionIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("held", hold(time.Second))
		s.wake("due", hold(300*time.Millisecond))
		var lost atomic.Bool
		s.before = func(context.Context, dispatch.TakeRequest) error {
			if lost.Load() {
				return fmt.Errorf("serve: %w", dispatch.ErrLost)
			}
			return nil
		}
		b := newBench(dispatch.Config{}, s, sends)
		synctest.Wait()
		lost.Store(true)
		pass(3 * time.Second)
		if n := len(s.asks()); n != 3 {
			t.Errorf("%d rounds, want two before it was lost, and one that finds out", n)
		}
		start := time.Now()
		s.wake("new", grant(granted()))
		s.wake("newer", grant(granted()))
		pass(100 * time.Millisecond)
		lost.Store(false)
		s.wake("newest", grant(granted()))
		pass(time.Second)
		rounds := s.asks()
		if got := rounds[4].At.Sub(start); got != 500*time.Millisecond {
			t.Errorf("asked again after %s, want 500ms", got)
		}
		if len(b.journal.sends()) != 3 {
			t.Errorf("%d sent, want 3", len(b.journal.sends()))
		}
		b.Stop()
		if released := s.givenBack(); released != nil {
			t.Errorf("%v are given back", released)
		}
		b.wantTokens(t, 0)
	})
}

// A request whose result was lost is repeated under its name, with growing pauses; meanwhile it takes no tokens.
func TestLostResultsAreRequestedAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"the request is lost": false, "the result is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				faults := 0
				cut := func(_ context.Context, r dispatch.TakeRequest) error {
					if len(r.Wakeups) == 0 || faults == 3 {
						return nil
					}
					faults++
					return errAway
				}
				if s.before = cut; lost {
					s.before, s.after = nil, cut
				}
				s.wake("u-1", grant(granted(), granted()))
				start := time.Now()
				b := newBench(dispatch.Config{Stale: time.Second}, s, sends)
				synctest.Wait()
				b.wantTokens(t, 0)
				pass(time.Second)
				b.await()
				rounds := s.asks()[1:]
				var at []time.Duration
				for _, r := range rounds {
					at = append(at, r.At.Sub(start))
					if diff := cmp.Diff(rounds[0].TakeRequest, r.TakeRequest); diff != "" {
						t.Errorf("it is asked otherwise (-first +then):\n%s", diff)
					}
				}
				ms := time.Millisecond
				if diff := cmp.Diff([]time.Duration{0, 50 * ms, 150 * ms, 350 * ms}, at); diff != "" {
					t.Errorf("asked at these times (-want +got):\n%s", diff)
				}
				if len(b.journal.sends()) != 2 || len(s.settled()) != 2 {
					t.Errorf("%d sent, %d settled, want 2", len(b.journal.sends()), len(s.settled()))
				}
				if log := b.ledger.Lines(); len(log) != 1 || !strings.Contains(log[0], "retrying") {
					t.Errorf("it logs %q, want one warning", log)
				}
				b.Stop()
				b.wantTokens(t, 0)
			})
		})
	}
}

// What is granted may be as old as the first request.
func TestGrantThatComesLateIsReturned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		faults := 3
		s.after = func(_ context.Context, r dispatch.TakeRequest) error {
			if len(r.Wakeups) > 0 && faults > 0 {
				faults--
				return errAway
			}
			return nil
		}
		s.wake("u-1", grant(granted()))
		b := newBench(dispatch.Config{}, s, sends)
		pass(time.Second)
		b.Stop()
		if diff := cmp.Diff([]dispatch.Outcome{
			{Disposition: dispatch.Returned, Reason: "late", Refund: true},
		}, s.settled()); diff != "" {
			t.Errorf("outcomes differ (-want +got):\n%s", diff)
		}
	})
}

// A round is given up after half a minute, for the store repairs it by then. A panic of the store is like an error.
func TestRoundIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(ctx context.Context) error{
		"refused": func(context.Context) error { return errAway },
		"hanging": func(ctx context.Context) error { <-ctx.Done(); return errors.Join(errAway, ctx.Err()) },
		"panic":   func(context.Context) error { panic("a bad reply") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				var away atomic.Bool
				s.before = func(ctx context.Context, _ dispatch.TakeRequest) error {
					if away.Load() {
						return fault(ctx)
					}
					return nil
				}
				s.wake("u-1", hold(time.Second))
				b := newBench(dispatch.Config{}, s, sends)
				synctest.Wait()
				away.Store(true)
				pass(40 * time.Second)
				b.wantTokens(t, 0)
				rounds := s.asks()[2:]
				first, last := rounds[0], rounds[len(rounds)-1]
				if asked := last.At.Sub(first.At); asked > 30*time.Second || first.ID != last.ID {
					t.Errorf("asked for %s, from %s to %s", asked, first.ID, last.ID)
				}
				log := b.ledger.Lines()
				if len(log) != 2 || !strings.Contains(log[1], "did not reply in time") ||
					strings.Contains(strings.Join(log, ""), "u-1") {
					t.Errorf("it logs %q", log)
				}
				away.Store(false)
				s.wake("u-2", grant(granted()))
				b.await()
				if len(b.journal.sends()) != 1 {
					t.Error("the loop does not go on")
				}
				b.Stop()
			})
		})
	}
}

// A result that does not fit its request is none.
func TestResultThatDoesNotFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("u-1", grant(granted()))
		short := &shortOfOne{store: s}
		d := dispatch.New(dispatch.Config{Log: slog.New(slog.DiscardHandler)}, short, s,
			push.Registry{notification.ChannelLog: sender(sends)})
		d.Start()
		pass(100 * time.Millisecond)
		d.Stop()
		if rounds := s.asks(); len(rounds) != 3 || rounds[1].ID != rounds[2].ID || len(s.settled()) != 1 {
			t.Errorf("%d rounds, %d settled; want the second of two asked again", len(rounds), len(s.settled()))
		}
	})
}

// shortOfOne is a store whose first result of a request lacks what became of the last wake-up.
type shortOfOne struct {
	*store
	done bool
}

func (s *shortOfOne) Take(ctx context.Context, r dispatch.TakeRequest) (dispatch.TakeResult, error) {
	reply, err := s.store.Take(ctx, r)
	if n := len(reply.Results); n > 0 && !s.done {
		s.done = true
		reply.Results = reply.Results[:n-1]
	}
	return reply, err
}
