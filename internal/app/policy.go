package app

import (
	"context"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/settings"
)

func (a *App) openPolicy(context.Context) error {
	watcher, err := policy.NewWatcher(policy.WatcherConfig{
		Path: a.cfg.Policy, Channels: a.cfg.Channels.Names(), Logger: a.log, OnChange: a.policyChanged,
		Check: func(ctx context.Context, before, after *policy.Policy) error {
			return a.deployment.CheckRemoval(ctx, before, after)
		},
	})
	if err != nil {
		return refusal.New("%v", err)
	}
	a.policy = watcher
	return nil
}

func (a *App) policyInForce() ops.Policy { return ops.Policy(a.policy.InForce()) }

// policyChanged is called when a new policy has come into force.
func (a *App) policyChanged(*policy.Policy) {
	a.publisher.Changed()
	if change := a.deployment.Rules.Replaced(); a.workers != nil {
		a.retimer.Changed(change)
	}
}

// contentOf is what a policy says.
func contentOf(p *policy.Policy, channels settings.Channels) ops.PolicyContent {
	return ops.PolicyContent{
		Text: p.Text, Limits: ops.Table(p.LimitsTable()),
		Deliveries: ops.Table(p.DeliveriesTable(channels.Deliveries())), Hours: p.DescribeHours(),
	}
}
