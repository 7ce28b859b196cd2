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
