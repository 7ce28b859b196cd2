package dispatch_test

import (
	"context"
	"fmt"
	"slices"
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

// slow is a sender that takes its time.
func (g gauge) slow(d time.Duration) sender {
	return func(context.Context, push.Message) error {
		g.enter()
		defer g.leave()
		pass(d)
		return nil
	}
}

// burst is a script that grants n deliveries of a user, as many in a round as it has tokens for; then the wake-up goes
// back to the queue.
func burst(n int) func(dispatch.TakeRequest) (turn, bool) {
	return func(r dispatch.TakeRequest) (turn, bool) {
		next := turn{}
		for n > 0 && len(next.Grants) < r.Capacity {
			n--
			next.Grants = append(next.Grants, granted())
		}
		next.back = n > 0
		return next, true
	}
}

// One user's burst uses the whole capacity at once, and whatever becomes free. It costs few pulls.
func TestBurstOfOneUserUsesTheWholeCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n, concurrency = 1000, 256
		inside, s := newGauge(), newStore()
		s.perform(0, "u-1", burst(n))
		b := newBench(dispatch.Config{Concurrency: concurrency, Partitions: 16}, s, inside.slow(200*time.Millisecond))
		b.wantTokens(t, concurrency)
		// Four times 200 ms, and the moments in which free tokens are gathered.
		pass(820 * time.Millisecond)
		synctest.Wait()
		if sends := b.journal.sends(); len(sends) != n || inside.peak() != concurrency {
			t.Errorf("%d sent, %d at once; want %d and %d", len(sends), inside.peak(), n, concurrency)
		}
		if b.journal.pulls() > n/10 {
			t.Errorf("%d pulls", b.journal.pulls())
		}
		b.Stop()
		b.wantTokens(t, 0)
	})
}

func TestNeverMoreDeliveriesThanConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency, users = 3, 31
		inside, s := newGauge(), newStore()
		for i := range users {
			s.wakeIn(i%2, fmt.Sprint(i), grant(granted()))
		}
		start := time.Now()
		b := newBench(dispatch.Config{
			Concurrency: concurrency, Partitions: 2, Hold: time.Minute,
		}, s, inside.slow(time.Second))
		b.wantTokens(t, concurrency)
		pass(11 * time.Second)
		b.wantTokens(t, 0)
		// 31 deliveries of a second each, three at a time: no token was left unused either.
		wantClock(t, "all delivered", start, 11*time.Second)
		if inside.peak() != concurrency || len(b.journal.sends()) != users {
			t.Errorf("%d deliveries, %d at once; want %d and %d", len(b.journal.sends()), inside.peak(), users,
				concurrency)
		}
		b.Stop()
	})
}

// A partition whose users have endless bursts leaves capacity to the others.
func TestCapacityIsSharedAmongPartitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const concurrency = 8
		s := newStore()
		s.servesAtOnce = true
		for i := range 3 {
			s.perform(i, fmt.Sprint("busy", i), burst(1000))
		}
		b := newBench(dispatch.Config{Concurrency: concurrency, Partitions: 4}, s, newGauge().slow(time.Second))
		pass(10*time.Second + time.Second/2)
		for i := range 5 {
			fresh := granted()
			fresh.Notification.ID = fmt.Sprint("fresh", i)
			s.wakeIn(3, fmt.Sprint("fresh", i), grant(fresh))
		}
		before := len(b.journal.sends())
		pass(6 * time.Second) // those that begin in the first five seconds end in these
		synctest.Wait()
		sends := b.journal.sends()[before:]
		fresh := 0
		for _, s := range sends {
			if s.ID != "n-1" {
				fresh++
			}
		}
		// Every second eight tokens become free, for four partitions in turn: each gets one at least.
		if fresh != 5 || len(sends) != 6*concurrency {
			t.Errorf("in 6 s %d were sent, and %d of 5 beside those with bursts", len(sends), fresh)
		}
		b.Stop()
	})
}

// Several users share the tokens of a round; what they leave is asked for at once.
func TestBurstsOfSeveralUsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for user := range 3 {
			left := 40
			s.perform(0, fmt.Sprint(user), func(r dispatch.TakeRequest) (turn, bool) {
				next := turn{}
				for ; left > 0 && len(next.Grants) < min(10, r.Capacity); left-- {
					next.Grants = append(next.Grants, granted())
				}
				next.back = left > 0
				next.Again = next.back
				return next, true
			})
		}
		b := newBench(dispatch.Config{}, s, newGauge().slow(200*time.Millisecond))
		b.wantTokens(t, 120) // though nobody told of what went back
		b.await()
		b.Stop()
	})
}

// A round takes half of what is free, and at least one; so that others find some while it is under way.
func TestRoundTakesItsShare(t *testing.T) {
	t.Parallel()
	for concurrency, want := range map[int]int{1: 1, 2: 1, 3: 1, 10: 5, 200: 100, 256: 100, 1000: 100} {
		t.Run(fmt.Sprintf("of %d", concurrency), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.wake("u-1", grant(granted()))
				b := newBench(dispatch.Config{Concurrency: concurrency}, s, newGauge().slow(time.Second))
				pass(time.Second / 2)
				for _, r := range s.asks() {
					if r.Capacity != want || r.Pull > want {
						t.Errorf("a round has %d tokens, and pulls %d; want %d", r.Capacity, r.Pull, want)
					}
				}
				b.wantTokens(t, 1)
				b.Stop()
			})
		})
	}
}

// Wake-ups that wait for their slot take no tokens from those that may go.
func TestHeldWakeupsTakeNoTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 500 {
			s.wake(fmt.Sprint(i), hold(time.Second))
		}
		b := newBench(dispatch.Config{Concurrency: 1}, s, sends)
		b.wantTokens(t, 0)
		start := time.Now()
		s.wake("runner", grant(granted()))
		b.await()
		wantClock(t, "delivered beside those that are held", start, 0)
		if len(b.journal.sends()) != 1 {
			t.Errorf("%d sent, want 1", len(b.journal.sends()))
		}
		b.Stop()
	})
}

// What is due and gets no token goes back after a while, so that other processes can serve it; and nothing is asked
// for that there is no token for.
func TestWithoutTokensWakeupsGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("due-1", hold(time.Second), grant(granted()))
		s.wake("due-2", hold(1200*time.Millisecond), grant(granted()))
		s.wake("later", hold(4*time.Second), grant(granted()))
		s.wake("busy", grant(granted(), granted()))
		start := time.Now()
		b := newBench(dispatch.Config{Concurrency: 2}, s, newGauge().slow(time.Minute))
		b.wantTokens(t, 2)
		asked := len(s.asks())
		pass(3 * time.Second)
		synctest.Wait()
		if got := s.givenBack(); !slices.Equal(got, []string{"due-1", "due-2"}) {
			t.Errorf("%v went back", got)
		}
		for _, r := range s.asks()[asked:] {
			if len(r.Release) == 0 || len(r.Wakeups)+r.Pull > 0 {
				t.Errorf("without a token it asks %+v", r)
			}
			if at := r.At.Sub(start) - time.Second + early; at < 1500*time.Millisecond {
				t.Errorf("it goes back %s after it was due", at)
			}
		}
		pass(3 * time.Minute)
		synctest.Wait()
		if n := len(b.journal.sends()); n != 5 {
			t.Errorf("%d sent in the end, want 5", n)
		}
		b.Stop()
		b.wantTokens(t, 0)
	})
}

// Neither a panic of the store nor one of a sender costs tokens: else the process would stop delivering, one panic
// after another.
func TestPanicsReturnTokens(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*store){
		"claim": func(s *store) {
			s.claim = func(context.Context, *dispatch.Grant) (bool, error) { panic("a bad reply") }
		},
		"settle": func(s *store) {
			s.settle = func(context.Context, *dispatch.Grant, dispatch.Outcome) (dispatch.Settlement, error) {
				panic("a bad reply")
			}
		},
		"grant": func(s *store) {
			s.claim = func(_ context.Context, g *dispatch.Grant) (bool, error) {
				g.Notification = nil
				return true, nil
			}
		},
		"grant that is nil": func(s *store) {
			s.perform(0, "u-0", func(dispatch.TakeRequest) (turn, bool) { return grant(nil), true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				arrange(s)
				for i := range 5 {
					s.wake(fmt.Sprint(i+1), grant(granted()))
				}
				b := newBench(dispatch.Config{Concurrency: 2}, s, sends)
				pass(10 * time.Second)
				if log := b.ledger.Lines(); len(log) == 0 {
					t.Error("nobody is told")
				}
				b.wantTokens(t, 0)
				b.Stop()
			})
		})
	}
}
