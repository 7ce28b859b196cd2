package app

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/effective"
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
	if limitsDiffer := a.deployment.Rules.Replaced(); !limitsDiffer || a.workers == nil {
		return
	}
	users, err := effective.Reschedule(ctx, a.deployment.Agendas)
	if err != nil {
		a.log.Warn("could not reschedule under the new policy; waiting notifications keep their slots", "error", err)
	} else if users > 0 {
		a.log.Info("rescheduled waiting notifications under the new policy", "users", users)
	}
}

// limitsChanged reschedules the waiting notifications of a user whose own limits have changed.
func (a *App) limitsChanged(ctx context.Context, userID string) {
	a.checker.Exempt(userID)
	if a.workers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.deployment.Agendas.WakePersonal(ctx, userID); err != nil {
		a.log.WarnContext(ctx, "could not reschedule under a user's changed limits; waiting notifications keep their slots",
			"user_id", userID, "error", err)
	}
}
