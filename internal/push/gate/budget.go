package gate

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// spentBudget is a channel's budget that is used up: until then the limiter would refuse every call.
type spentBudget struct {
	key   string
	until time.Time
}

// spend takes a call out of the budgets: of its target, and of the channel. It takes it out of both or of neither:
// the tries that a budget refuses are many. What was taken can be taken back, when nothing was sent.
func (g *Gate) spend(ctx context.Context, m push.Message) (takeBack func(), refusal *push.Error) {
	all, target := "all:"+*g.budgetKey.Load(), "to:"+digest(m.To)
	if spent := g.spent.Load(); spent != nil && spent.key == all {
		if wait := time.Until(spent.until); wait > 0 {
			return nil, later(CodeBudget, wait)
		}
	}
	own, giveTarget := g.take(ctx, CodeTarget, target, g.cfg.PerTarget)
	if own != nil {
		return nil, own.failure
	}
	refused, giveAll := g.take(ctx, CodeBudget, all, g.cfg.Budget)
	if refused == nil {
		return func() { giveTarget(); giveAll() }, nil
	}
	giveTarget()
	if refused.failure.Code == CodeBudget {
		g.spent.Store(&spentBudget{key: all, until: time.Now().Add(refused.wait)})
	}
	return nil, refused.failure
}

// refusal is a budget's, and how long it is until it could allow a call.
type refusal struct {
	failure *push.Error
	wait    time.Duration
}

// refundTimeout bounds how long it may take to take a call back.
const refundTimeout = time.Second

// take takes a call out of one budget. What was taken can be taken back, when nothing was sent.
func (g *Gate) take(ctx context.Context, code, key string, rules []throttle.Rule) (refused *refusal, takeBack func()) {
	if len(rules) == 0 {
		return nil, func() {}
	}
	// A bucket costs the same memory whatever its size.
	plan, id := throttle.Plan{Algorithm: throttle.TokenBucket, Rules: rules}, token()
	decision, err := g.cfg.Limiter.Allow(ctx, g.key(key), plan, id)
	switch {
	case err != nil: // in doubt nothing is sent
		return &refusal{failure: later(CodeUnreachable, time.Second)}, func() {}
	case !decision.Allowed:
		return &refusal{later(code, decision.Wait()), decision.Wait()}, func() {}
	}
	return nil, func() {
		// What can't be taken back is a call that its target lost. It is taken back even if the time is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
		defer cancel()
		_, _ = g.cfg.Limiter.Refund(ctx, g.key(key), plan, id, decision.At)
	}
}
