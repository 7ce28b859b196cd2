package throttletest_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/throttle/throttletest"
)

// call is what a limiter is asked about.
type call struct {
	key   throttle.Key
	plan  throttle.Plan
	token string
}

// mutant is the limiter in memory with one fault.
type mutant struct {
	*throttle.Memory
	allow  func(ctx context.Context, m *throttle.Memory, c call) (throttle.Decision, error)
	peek   func(ctx context.Context, m *throttle.Memory, c call) (throttle.Usage, error)
	refund func(ctx context.Context, m *throttle.Memory, c call, at throttle.Micros) (bool, error)
	clear  func(ctx context.Context, m *throttle.Memory, key throttle.Key) error
}

func (m mutant) Allow(
	ctx context.Context, key throttle.Key, plan throttle.Plan, token string,
) (throttle.Decision, error) {
	if m.allow != nil {
		return m.allow(ctx, m.Memory, call{key, plan, token})
	}
	return m.Memory.Allow(ctx, key, plan, token)
}

func (m mutant) Spend(ctx context.Context, key throttle.Key, plan throttle.Plan, token string) (throttle.Usage, error) {
	if m.allow != nil {
		d, err := m.allow(ctx, m.Memory, call{key, plan, token})
		if err != nil {
			return throttle.Usage{}, err
		}
		u, err := m.Peek(ctx, key, plan)
		return throttle.Usage{Decision: d, Rules: u.Rules}, err
	}
	return m.Memory.Spend(ctx, key, plan, token)
}

func (m mutant) Peek(ctx context.Context, key throttle.Key, plan throttle.Plan) (throttle.Usage, error) {
	if m.peek != nil {
		return m.peek(ctx, m.Memory, call{key: key, plan: plan})
	}
	return m.Memory.Peek(ctx, key, plan)
}

func (m mutant) Refund(
	ctx context.Context, key throttle.Key, plan throttle.Plan, token string, at throttle.Micros,
) (bool, error) {
	if m.refund != nil {
		return m.refund(ctx, m.Memory, call{key, plan, token}, at)
	}
	return m.Memory.Refund(ctx, key, plan, token, at)
}

func (m mutant) Clear(ctx context.Context, key throttle.Key) error {
	if m.clear != nil {
		return m.clear(ctx, m.Memory, key)
	}
	return m.Memory.Clear(ctx, key)
}

// changed is the plan with every rule changed.
func changed(plan throttle.Plan, change func(*throttle.Rule)) throttle.Plan {
	rules := append([]throttle.Rule(nil), plan.Rules...)
	for i := range rules {
		change(&rules[i])
	}
	return throttle.Plan{Algorithm: plan.Algorithm, Rules: rules, Head: plan.Head}
}

// allowing is a limiter that allows another call than the one it is asked about.
func allowing(change func(*call)) mutant {
	return mutant{
		allow: func(ctx context.Context, m *throttle.Memory, c call) (throttle.Decision, error) {
			change(&c)
			return m.Allow(ctx, c.key, c.plan, c.token)
		},
	}
}

// mutants are limiters with the faults of those that came before: each must be found out by a case of the suite.
func mutants() map[string]mutant {
	var asked atomic.Int64
	return map[string]mutant{
		"OneMoreThanMax": allowing(func(c *call) {
			c.plan = changed(c.plan, func(r *throttle.Rule) { r.Max++ })
		}),
		"AMicrosecondEarly": allowing(func(c *call) {
			c.plan = changed(c.plan, func(r *throttle.Rule) { r.Per -= time.Microsecond })
		}),
		"AMicrosecondLate": allowing(func(c *call) {
			c.plan = changed(c.plan, func(r *throttle.Rule) { r.Per += time.Microsecond })
		}),
		"NothingIsKept": allowing(func(c *call) {
			c.plan = changed(c.plan, func(r *throttle.Rule) { r.Reserve = throttle.Reserve{} })
		}),
		"NoNamedCap": allowing(func(c *call) {
			rules := slices.Clone(c.plan.Rules)
			for i := range rules {
				if rules[i].Kind == throttle.KindNamed {
					rules[i].Max = throttle.MaxMax
				}
			}
			c.plan.Rules = rules
		}),
		"EveryChannelCounts":        allowing(func(c *call) { c.plan.Head.Channel = "" }),
		"NoCap":                     allowing(func(c *call) { c.plan.Rules = c.plan.CategoryRules() }),
		"OneWindowForAllUsers":      allowing(func(c *call) { c.key.User = "all" }),
		"OneWindowForAllCategories": allowing(func(c *call) { c.key.Category = "all" }),
		"AskedTwiceCountsTwice": allowing(func(c *call) {
			if c.token != "" && len(c.token) < 50 {
				c.token += strconv.FormatInt(asked.Add(1), 10)
			}
		}),
		"AnyToken": allowing(func(c *call) {
			if c.token == "" || len(c.token) > throttle.MaxToken {
				c.token = "cut"
			}
		}),
		"RefusalsCount":     {allow: countRefusals},
		"ChargedOneByOne":   {allow: chargeOneByOne},
		"PeekCounts":        {peek: countPeeks},
		"RefundDoesNothing": {refund: refundNothing},
		"RefundIsUnchecked": {refund: refundUnchecked},
		"RefundSaysNo":      {refund: refundDenied},
		"ClearDoesNothing":  {clear: func(context.Context, *throttle.Memory, throttle.Key) error { return nil }},
	}
}

// countRefusals is the classic rolling limiter: a refused attempt closes the window for a little longer.
func countRefusals(ctx context.Context, m *throttle.Memory, c call) (throttle.Decision, error) {
	d, err := m.Allow(ctx, c.key, c.plan, c.token)
	if err == nil && !d.Allowed {
		wide := changed(c.plan, func(r *throttle.Rule) { r.Max += 1000; r.Kind = throttle.KindLimit })
		_, err = m.Allow(ctx, c.key, wide, c.token)
	}
	return d, err
}

// chargeOneByOne is the pipelined counter: each window is charged, though another refuses.
func chargeOneByOne(ctx context.Context, m *throttle.Memory, c call) (throttle.Decision, error) {
	last := throttle.Decision{Allowed: true, Cause: throttle.Cause{Rule: throttle.NoRule}}
	for i, r := range c.plan.Rules {
		single := throttle.Plan{Algorithm: c.plan.Algorithm, Rules: []throttle.Rule{r}}
		key := throttle.Key{User: c.key.User, Category: c.key.Category + r.String()}
		d, err := m.Allow(ctx, key, single, c.token)
		if err != nil {
			return d, err
		}
		last.Now = d.Now
		if last.At < d.At {
			last.At = d.At
		}
		if !d.Allowed {
			last.Allowed, last.Rule = false, i
		}
	}
	return last, nil
}

func countPeeks(ctx context.Context, m *throttle.Memory, c call) (throttle.Usage, error) {
	u, err := m.Peek(ctx, c.key, c.plan)
	if err == nil {
		_, err = m.Allow(ctx, c.key, c.plan, "peek"+strconv.Itoa(int(u.Now)))
	}
	return u, err
}

func refundNothing(context.Context, *throttle.Memory, call, throttle.Micros) (bool, error) {
	return true, nil
}

// refundUnchecked makes room, whoever asks.
func refundUnchecked(ctx context.Context, m *throttle.Memory, c call, at throttle.Micros) (bool, error) {
	found, err := m.Refund(ctx, c.key, c.plan, c.token, at)
	if err == nil && !found {
		err = m.Clear(ctx, c.key)
	}
	return found, err
}

func refundDenied(ctx context.Context, m *throttle.Memory, c call, at throttle.Micros) (bool, error) {
	_, err := m.Refund(ctx, c.key, c.plan, c.token, at)
	return false, err
}

// TestSuiteFindsFaults shows that the suite can fail: it does on each mutant, and not on what they are made of.
func TestSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	for _, algorithm := range throttle.Algorithms() {
		features := throttletest.Features{Algorithm: algorithm}
		t.Run(algorithm.String()+"/Sound", func(t *testing.T) {
			t.Parallel()
			throttletest.Run(t, features, func(testing.TB) throttletest.Subject { return subject(mutant{}) })
		})
		for name, m := range mutants() {
			t.Run(algorithm.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				for _, c := range throttletest.Cases(features) {
					if fails(t, func(tb testing.TB) { c.Run(tb, subject(m)) }) {
						return
					}
				}
				t.Error("no case of the suite finds this fault")
			})
		}
	}
}
