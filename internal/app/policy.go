package app

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/refusal"
)

func (a *App) openPolicy(context.Context) error {
	watcher, err := policy.NewWatcher(policy.WatcherConfig{
		Path: a.cfg.Policy, Channels: a.cfg.Channels.Names(), Logger: a.log, OnChange: a.policyChanged,
	})
	if err != nil {
		return refusal.New("%v", err)
	}
	a.policy = watcher
	return nil
}

func (a *App) policyInForce() ops.Policy { return ops.Policy(a.policy.InForce()) }

// policyChanged is called when a new policy has come into force.
func (a *App) policyChanged(p *policy.Policy) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := deployment.PublishPolicy(ctx, a.deployment.Redis.Client, p); err != nil {
		a.log.Warn("producers that write to the queue themselves still see the old policy", "error", err)
	}
	if change := a.deployment.Rules.Replaced(); a.workers != nil {
		a.retimer.Changed(change)
	}
}
