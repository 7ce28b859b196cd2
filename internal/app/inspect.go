package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// lineShown is how many waiting notifications of a category the user page lists.
const lineShown = 50

// user gathers what is known of a user's categories, for the ops pages.
func (a *App) user(ctx context.Context, userID string) ([]ops.UserCategory, error) {
	var categories []ops.UserCategory
	for name := range a.policy.Current().Categories {
		in, err := a.agendas.Inspect(ctx, dispatch.BacklogOf(userID, name, a.cfg.Partitions), lineShown)
		if err != nil {
			return nil, err
		}
		categories = append(categories, userCategory(name, in))
	}
	slices.SortFunc(categories, func(a, b ops.UserCategory) int {
		if a.Category < b.Category {
			return -1
		}
		return 1
	})
	return categories, nil
}

func userCategory(name string, in agenda.Inspection) ops.UserCategory {
	c := ops.UserCategory{
		Category: name, Allowed: in.Allowed, NextAllowedAt: in.At.Time().UTC(), Waiting: in.Waiting,
		Deferred: in.Deferred,
	}
	if in.Rule != throttle.NoRule {
		c.Reason = in.Rules[in.Rule].Rule.String()
	}
	for _, r := range in.Rules {
		rule := ops.Rule{Rule: r.Rule.String(), Used: r.Used, Remaining: r.Remaining()}
		if r.FreesAt > 0 {
			rule.FreesAt = r.FreesAt.Time().UTC()
		}
		c.Rules = append(c.Rules, rule)
	}
	for _, at := range in.Admitted {
		c.Admitted = append(c.Admitted, at.Time().UTC())
	}
	for _, waiting := range in.Line {
		at := waiting.DeliverAt.Time().UTC()
		c.Line = append(c.Line, ops.InLine{ID: waiting.ID, DeliverAt: at, Ahead: waiting.Ahead})
	}
	return c
}

// gauges reads the deployment's counts for the metrics, and this process's load.
func (a *App) gauges(ctx context.Context) (ops.Gauges, error) {
	counts, err := a.agendas.Stats(ctx)
	if err != nil {
		return ops.Gauges{}, err
	}
	g := ops.Gauges{
		Counts: counts, Paused: a.follower.Paused(), InFlight: a.dispatcher.InFlight(),
		BreakersOpen: map[string]int{}, RedisMemory: a.memory.Ratio(),
	}
	for _, category := range a.policy.Current().Categories {
		if g.MaxDefer == 0 || category.MaxDefer < g.MaxDefer {
			g.MaxDefer = category.MaxDefer
		}
	}
	for channel, gate := range a.gates {
		g.BreakersOpen[string(channel)] = gate.Open()
	}
	if a.workers != nil {
		g.Concurrency = a.cfg.Concurrency
	}
	if !a.cfg.Setup.Embedded() {
		info, err := a.redis.client.Info(ctx, "memory").Result()
		if err != nil {
			return ops.Gauges{}, fmt.Errorf("ask Redis for its eviction policy: %w", err)
		}
		rule := evictionPolicy(info)
		g.Evicts = rule != "" && rule != "noeviction"
	}
	return g, nil
}

// Stats counts what the deployment holds and did.
func (a *App) Stats(ctx context.Context) (stats.Counts, error) { return a.store.Stats(ctx) }
