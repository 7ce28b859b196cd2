package app

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// rules are what notifications are judged by: the policy in effect and the configured channels.
type rules struct {
	*effective.Policy
	channels
}

// check refuses a notification that a producer wrote into the database when its category is unknown or its channel
// does not take it.
func (r *rules) check(n *notification.Notification) error {
	if !r.HasCategory(n.Category) {
		return &notification.FieldError{Field: "category", Message: "is not named in the policy"}
	}
	return r.CheckDelivery(n)
}

func (a *App) openPolicy(context.Context) error {
	watcher, err := policy.NewWatcher(policy.WatcherConfig{
		Path: a.cfg.Policy, Logger: a.log, OnChange: a.policyChanged,
	})
	if err != nil {
		return refuse("%v", err)
	}
	a.policy = watcher
	a.inForce.Store(watcher.Current())
	return nil
}

// policyChanged is called when a new policy has come into force.
func (a *App) policyChanged(p *policy.Policy) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := deployment.PublishPolicy(ctx, a.redis.Client, p); err != nil {
		a.log.Warn("producers that write to the queue themselves still see the old policy", "error", err)
	}
	now := time.Now()
	a.policySince.Store(&now)
	before := a.inForce.Swap(p)
	if a.workers == nil || before == nil || !effective.LimitsDiffer(before, p) {
		return
	}
	users, err := effective.Reschedule(ctx, a.agendas)
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
	if err := a.agendas.WakePersonal(ctx, userID); err != nil {
		a.log.WarnContext(ctx, "could not reschedule under a user's changed limits; waiting notifications keep their slots",
			"user_id", userID, "error", err)
	}
}

// users keeps what users want, checked against the policy and the channels.
type users struct {
	*storepostgres.Store
	rules *rules
}

// SetPreferences implements httpapi's Users.
func (u users) SetPreferences(ctx context.Context, userID string, p *notification.Preferences) error {
	if err := u.rules.CheckPreferences(p, func(channel string) bool {
		_, ok := u.rules.channels[notification.Channel(channel)]
		return ok
	}); err != nil {
		return err
	}
	return u.Store.SetPreferences(ctx, userID, p)
}
