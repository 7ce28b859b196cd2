package gate_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
)

// A thousand notifications wait for a target that refuses each call at once, and their slots come back each time. It is
// called some times in a row, then less and less often, by one call at a time. Other targets are called at once all the
// while, those of its host too unless the host itself may be away. It is called again soon after it takes notifications
// again.
func TestRefusalsInARowBackOffByTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure     push.Error
		first, next int                    // the most calls in the first minute, and in each one after
		host        func(to string) string // Defaults to one for all
	}{
		"401": {failure: push.Error{Class: push.Transient, Code: "401", Concerns: push.ConcernsTarget}, first: 25, next: 2},
		"503": {failure: push.Error{Class: push.Transient, Code: "503"}, first: 80, next: 61, host: func(to string) string { return to }},
		"410": {failure: push.Error{Class: push.TargetGone, Code: "410"}, first: 80, next: 61},
		"429": {failure: push.Error{Class: push.Throttled, Code: "429"}, first: 25, next: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				backOff(t, c.failure, c.host, c.first, c.next)
			})
		})
	}
}

func backOff(t *testing.T, failure push.Error, host func(string) string, first, next int) {
	t.Helper()
	p := &provider{}
	p.failure.Store(&failure)
	g := newGate(p, func(c *gate.Config) { c.Host = host })
	var waiting sync.WaitGroup
	for range 1000 {
		waiting.Go(func() {
			for {
				err := push.Classify(g.Send(t.Context(), to("bad")))
				if err == nil {
					return
				}
				sleep(max(err.RetryAfter, time.Second)) // a dispatcher waits no less
			}
		})
	}
	for minute := range 3 {
		before := p.called("bad")
		for range 600 {
			if err := g.Send(t.Context(), to("good")); err != nil {
				t.Errorf("another target: %v", err)
			}
			sleep(100 * time.Millisecond)
		}
		most := next
		if minute == 0 {
			most = first
		}
		if n := p.called("bad") - before; n > most || n == 0 {
			t.Errorf("it is called %d times in minute %d, want at most %d and at least once", n, minute+1, most)
		}
	}
	p.failure.Store(nil)
	recovers := time.Now()
	waiting.Wait()
	if took := time.Since(recovers); took > 2*time.Minute {
		t.Errorf("all have it %s after it takes them again", took)
	}
}

// The limits forget what reached nobody, so the gate keeps the minimum gap of a user's category towards the target:
// neither the notification itself nor another of the category goes there sooner. All else does.
func TestTheMinimumGapTowardsATargetThatRefusesStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure push.Error
		gap     time.Duration
		held    bool
	}{
		"refused":             {failure: push.Error{Class: push.Transient, Code: "401", Concerns: push.ConcernsTarget}, gap: time.Hour, held: true},
		"refused for ever":    {failure: push.Error{Class: push.Permanent, Code: "400"}, gap: time.Hour, held: true},
		"asked to slow down":  {failure: push.Error{Class: push.Throttled, Code: "429", RetryAfter: time.Second}, gap: time.Hour, held: true},
		"no gap":              {failure: push.Error{Class: push.Transient, Code: "401", Concerns: push.ConcernsTarget}},
		"it counts, so it is": {failure: push.Error{Class: push.Ambiguous, Code: "502"}, gap: time.Hour},
		"never sent":          {failure: push.Error{Class: push.Transient, Code: "dns", Unsent: true}, gap: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &provider{}
				p.failure.Store(&c.failure)
				g := newGate(p, func(cfg *gate.Config) {
					cfg.MinGap = func(n *notification.Notification) time.Duration {
						if n.Priority == notification.PriorityCritical {
							return 0
						}
						return c.gap
					}
				})
				one := func(target, user, category string, priority notification.Priority) push.Message {
					m := to(target)
					m.UserID, m.Category, m.Priority = user, category, priority
					return m
				}
				same := one("bad", "ada", "chat", notification.PriorityNormal)
				_ = g.Send(t.Context(), same)
				p.failure.Store(nil)
				sleep(2 * time.Second)
				for what, m := range map[string]push.Message{
					"another category":  one("bad", "ada", "news", notification.PriorityNormal),
					"another user":      one("bad", "bob", "chat", notification.PriorityNormal),
					"another target":    one("good", "ada", "chat", notification.PriorityNormal),
					"one that bypasses": one("bad", "ada", "chat", notification.PriorityCritical),
				} {
					if err := g.Send(t.Context(), m); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
				if !c.held {
					if err := g.Send(t.Context(), same); err != nil {
						t.Errorf("nothing holds it: %v", err)
					}
					return
				}
				sleep(time.Hour - 3*time.Second)
				if got := code(g.Send(t.Context(), same)); got != gate.CodeTarget {
					t.Errorf("before the gap is over: %q", got)
				}
				sleep(2 * time.Second)
				if err := g.Send(t.Context(), same); err != nil {
					t.Errorf("after the gap: %v", err)
				}
			})
		})
	}
}

// Refusals among deliveries, and those that tell nothing of the target, hold nobody back.
func TestRefusalsAmongDeliveriesHoldNobodyBack(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]*push.Error{
		"refused now and then": {Class: push.Transient, Code: "400", Concerns: push.ConcernsTarget},
		"may have it":          {Class: push.Ambiguous, Code: "502", Concerns: push.ConcernsTarget},
		"was not asked":        {Class: push.Permanent, Code: "bad_request", Unsent: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &provider{}
			g := newGate(p, oneHost)
			for i := range 300 {
				want := failure.Code
				if p.failure.Store(failure); failure.Code == "400" && i%5 == 0 {
					p.failure.Store(nil)
					want = ""
				}
				if got := code(g.Send(t.Context(), to("bad"))); got != want {
					t.Fatalf("delivery %d: %q, want %q", i, got, want)
				}
			}
		})
	}
}
