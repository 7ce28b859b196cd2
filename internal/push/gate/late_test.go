package gate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/gate"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// slowLimiter takes a time to decide.
type slowLimiter struct {
	throttle.Limiter
	takes time.Duration
}

func (l *slowLimiter) Allow(ctx context.Context, key throttle.Key, plan throttle.Plan, token string,
) (throttle.Decision, error) {
	sleep(l.takes)
	return l.Limiter.Allow(ctx, key, plan, token)
}

// A call whose budget was decided after its deadline is not made, and costs no budget.
func TestALateCallIsNotMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, limiter := &provider{}, &slowLimiter{Limiter: throttle.NewMemory(time.Now), takes: 3 * time.Second}
		g := newGate(p, func(c *gate.Config) {
			c.Limiter = limiter
			c.Budget = []throttle.Rule{{Max: 1, Per: time.Hour}}
			c.PerTarget = []throttle.Rule{{Max: 1, Per: time.Hour}}
		})
		m := to("device")
		m.Deadline = push.NewDeadline(time.Now().Add(250 * time.Millisecond))
		failure := push.Classify(g.Send(t.Context(), m))
		if failure == nil || failure.Code != push.CodeLate || failure.Counts() || p.called("device") > 0 {
			t.Fatalf("returned %+v after %d calls, want none, and that it is late", failure, p.called("device"))
		}
		limiter.takes = 0
		m.Deadline = push.NewDeadline(time.Now().Add(250 * time.Millisecond))
		if err := g.Send(t.Context(), m); err != nil {
			t.Errorf("the next one: %v, want the budget to be as it was", err)
		}
	})
}

// Nobody waits for a place beyond the deadline, for the host's and that of strangers together.
func TestNobodyWaitsForAPlaceBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(&provider{takes: time.Second}, func(c *gate.Config) { c.InFlight = 1 })
		done := make(chan error)
		go func() { done <- g.Send(t.Context(), to("device")) }()
		synctest.Wait()
		start, m := time.Now(), to("device")
		m.Deadline = push.NewDeadline(start.Add(100 * time.Millisecond))
		if got := code(g.Send(t.Context(), m)); got != gate.CodeBusy || time.Since(start) != 100*time.Millisecond {
			t.Errorf("returned %q after %s, want %q at the deadline", got, time.Since(start), gate.CodeBusy)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// endingLimiter ends a delivery's context once it has allowed a call that many times.
type endingLimiter struct {
	throttle.Limiter
	after int
	end   context.CancelFunc
}

func (l *endingLimiter) Allow(ctx context.Context, key throttle.Key, plan throttle.Plan, token string,
) (throttle.Decision, error) {
	decision, err := l.Limiter.Allow(ctx, key, plan, token)
	if l.after--; l.after == 0 {
		l.end()
	}
	return decision, err
}

// A delivery to many devices has one time for all. The devices that are left when it ends are not called, and say
// nothing of their host.
func TestNobodyIsCalledAfterTheTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.failure.Store(&push.Error{Class: push.Transient, Code: "timeout", Unsent: true})
		g := newGate(p, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		for range 20 {
			failure := push.Classify(g.Send(ctx, to("bad")))
			if failure == nil || failure.Class != push.Transient || failure.Code != "timeout" || !failure.Unsent ||
				failure.Whom() == push.ConcernsHost {
				t.Errorf("returned %+v, want a time-out that does not concern the host", failure)
			}
		}
		p.failure.Store(nil)
		if err := g.Send(t.Context(), to("bad")); err != nil || p.called("bad") != 1 || g.Open() > 0 {
			t.Errorf("the next one: %v after %d calls, %+v; want the only call, and the breaker closed", err,
				p.called("bad"), g.States())
		}
	})
}

// A call whose budget was decided after its time costs no budget, and a shutdown is told from a time-out.
func TestACallWithoutTimeCostsNoBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p, limiter := &provider{}, &endingLimiter{Limiter: throttle.NewMemory(time.Now), after: 2, end: cancel}
		g := newGate(p, func(c *gate.Config) {
			c.Limiter = limiter
			c.Budget = []throttle.Rule{{Max: 1, Per: time.Hour}}
			c.PerTarget = []throttle.Rule{{Max: 1, Per: time.Hour}}
		})
		m := to("device")
		m.Deadline = push.NewDeadline(time.Now().Add(time.Second))
		failure := push.Classify(g.Send(ctx, m))
		if _, begun := m.Deadline.Begun(); failure == nil || failure.Code != "cancelled" || begun ||
			p.called("device") > 0 {
			t.Fatalf("returned %+v after %d calls, want none, and that it is cancelled", failure, p.called("device"))
		}
		if err := g.Send(t.Context(), to("device")); err != nil {
			t.Errorf("the next one: %v, want the budget to be as it was", err)
		}
	})
}
