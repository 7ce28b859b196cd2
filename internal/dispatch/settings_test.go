package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// with returns the settings of deliveries in tests, changed.
func with(change func(category string, s *dispatch.Settings)) func(string, notification.Channel) dispatch.Settings {
	return func(category string, channel notification.Channel) dispatch.Settings {
		s := retries(category, channel)
		change(category, &s)
		return s
	}
}

// lease is what the tests take for the lease of a delivery: the agendas' default.
const lease = 15 * time.Second

// A lease is shorter than an attempt may take: it is extended while the attempt lasts, and not after. A quick delivery
// costs nothing more.
func TestTheLeaseOutlivesTheTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		away  bool // the store does not respond to an extension
		least int
	}{
		"quick":                   {takes: 2 * time.Second},
		"slow":                    {takes: 40 * time.Second, least: 3},
		"for as long as there is": {takes: time.Hour, least: 4},
		"and the store is away":   {takes: 40 * time.Second, away: true, least: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := newStore(), time.Now()
				if c.away {
					s.extend = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				}
				cfg := dispatch.Config{Settings: with(func(_ string, s *dispatch.Settings) { s.Timeout = time.Minute })}
				deliver(cfg, s, granted(), func(ctx context.Context, _ push.Message) error {
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
					}
					return ctx.Err()
				})
				ended := min(c.takes, time.Minute)
				wantClock(t, "the delivery ended", start, ended)
				pass(time.Hour)
				last := start
				for _, at := range append(s.extensions(), start.Add(ended)) {
					if at.Sub(last) > lease/2 || at.After(start.Add(ended)) {
						t.Errorf("extended after %s and %s of %s", last.Sub(start), at.Sub(start), ended)
					}
					last = at
				}
				if n := len(s.extensions()); n < c.least || c.least == 0 && n > 0 {
					t.Errorf("extended %d times, want %d or more", n, c.least)
				}
			})
		})
	}
}

// An attempt that would outlast the shutdown is cut short, so that its result is written by the process that made it.
func TestStopCutsShortWhatOutlastsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ drain, cut time.Duration }{
		"by default":  {drain: 20 * time.Second, cut: 18 * time.Second},
		"a short one": {drain: 2 * time.Second, cut: 1800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				s.wake("u-1", grant(granted()))
				cfg := dispatch.Config{
					DrainTimeout: c.drain,
					Settings:     with(func(_ string, s *dispatch.Settings) { s.Timeout = time.Minute }),
				}
				b := newBench(cfg, s, func(ctx context.Context, _ push.Message) error {
					<-ctx.Done()
					return &push.Error{Class: push.Ambiguous, Code: "cancelled", Err: ctx.Err()}
				})
				b.wantTokens(t, 1)
				start := time.Now()
				b.Stop()
				wantClock(t, "stopped", start, c.cut)
				outcomes := s.settled()
				if len(outcomes) != 1 || outcomes[0].Reason != "ambiguous: cancelled" {
					t.Errorf("settled %+v, want a retry", outcomes)
				}
				if log := b.ledger.Lines(); log != nil {
					t.Errorf("it logs %q", log)
				}
			})
		})
	}
}

// calls counts those under way by category, and the most there were.
type calls struct{ now, most, all [2]atomic.Int64 }

// send takes a second for each delivery of the category chat, and no time for others.
func (c *calls) send(_ context.Context, m push.Message) error {
	of := 0
	if m.Category == "chat" {
		of = 1
	}
	now := c.now[of].Add(1)
	for most := c.most[of].Load(); now > most && !c.most[of].CompareAndSwap(most, now); most = c.most[of].Load() {
	}
	if of == 1 {
		pass(time.Second)
	}
	c.now[of].Add(-1)
	c.all[of].Add(1)
	return nil
}

// A full category, or channel, holds no worker: what finds no place goes back unsent at once, and others are delivered.
func TestAFullCategoryHoldsNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(category string, s *dispatch.Settings)
		code   string
		others int64 // how many of the other category are delivered meanwhile, at least
	}{
		"a category": {
			change: func(category string, s *dispatch.Settings) {
				if category == "chat" {
					s.CategoryConcurrency = 3
				}
			}, code: "category_busy", others: 50,
		},
		"a channel": {change: func(_ string, s *dispatch.Settings) { s.Concurrency = 3 }, code: "channel_busy"},
		"both": {
			change: func(_ string, s *dispatch.Settings) { s.CategoryConcurrency, s.Concurrency = 3, 8 },
			code:   "category_busy", others: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 50
				s, made := newStore(), &calls{}
				for i := range n {
					g := granted()
					g.Notification.ID = fmt.Sprint("chat", i)
					s.wake(g.Notification.ID, grant(g))
				}
				b := newBench(dispatch.Config{Concurrency: 60, Settings: with(c.change)}, s, made.send)
				b.wantTokens(t, 3)
				if back := len(s.settled()); back != n-3 {
					t.Errorf("%d went back at once, want %d", back, n-3)
				}
				for i := range n {
					g := granted()
					g.Notification.ID, g.Notification.Category, g.Category = fmt.Sprint("other", i), "other", "other"
					s.wake(g.Notification.ID, grant(g))
				}
				synctest.Wait()
				if others := made.all[0].Load(); others < c.others || c.others == 0 && others > 0 {
					t.Errorf("%d of the others are delivered meanwhile", others)
				}
				b.await()
				b.Stop()
				if most := made.most[1].Load(); most != 3 {
					t.Errorf("%d of the category at once, want 3", most)
				}
				for _, o := range s.settled() {
					if o.Disposition == dispatch.Delivered {
						continue
					}
					if o.Reason != "throttled: "+c.code || !o.Untried || !o.Refund || o.RetryAfter < 500*time.Millisecond {
						t.Errorf("settled %+v, want it to wait for a place", o)
					}
				}
				b.wantTokens(t, 0)
			})
		})
	}
}

// Who finds no place stays away for as long as there has been none, up to a minute, and for half as long again at most.
func TestAFullCategoryIsAskedLessAndLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("holder", grant(granted()))
		cfg := dispatch.Config{Settings: with(func(_ string, s *dispatch.Settings) {
			s.CategoryConcurrency, s.Timeout = 1, time.Hour
		})}
		b := newBench(cfg, s, func(context.Context, push.Message) error { pass(10 * time.Minute); return nil })
		b.wantTokens(t, 1)
		for i, after := range []time.Duration{0, 10 * time.Second, 5 * time.Minute} {
			pass(after)
			s.wake(fmt.Sprint("late", i), grant(granted()))
			synctest.Wait()
		}
		least := []time.Duration{500 * time.Millisecond, 10 * time.Second, time.Minute}
		for i, o := range s.settled() {
			if most := max(least[i]*3/2, 2*time.Second); o.RetryAfter < least[i] || o.RetryAfter > most {
				t.Errorf("the %d. stays away for %s, want %s to %s", i+1, o.RetryAfter, least[i], most)
			}
		}
		b.AwaitDeliveries()
		s.wake("free", grant(granted()))
		pass(time.Hour)
		b.Stop()
		if outcomes := s.settled(); outcomes[len(outcomes)-1].Disposition != dispatch.Delivered {
			t.Errorf("once there is a place: %+v", outcomes)
		}
	})
}

// A place is left when a sender panics or fails, else a category would be full for ever.
func TestPlacesAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("u-1", grant(granted(), granted(), granted(), granted()))
		var calls atomic.Int64
		cfg := dispatch.Config{
			Concurrency: 1,
			Settings:    with(func(_ string, s *dispatch.Settings) { s.CategoryConcurrency, s.Concurrency = 1, 1 }),
		}
		b := newBench(cfg, s, func(context.Context, push.Message) error {
			if calls.Add(1)%2 == 0 {
				return errors.New("no")
			}
			panic("boom")
		})
		b.await()
		pass(time.Second)
		b.Stop()
		for _, o := range s.settled() {
			if strings.Contains(o.Reason, "busy") {
				t.Errorf("settled %+v after everything has ended", o)
			}
		}
		if calls.Load() != 4 {
			t.Errorf("%d sent, want 4", calls.Load())
		}
	})
}
