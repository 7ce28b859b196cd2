package app

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
)

// rules answers, from the policy in force and the configured channels, what agendas, intake and dispatch ask.
type rules struct {
	current func() *policy.Policy
	// channels are the configured ones.
	channels channels
	own      *storepostgres.OwnLimits // nil without Postgres
	// pausedFor tells how long what belongs to a category has to wait because operators paused it; 0 when it is not
	// paused. Nil for never.
	pausedFor func(category string) time.Duration
	cached    atomic.Pointer[categorySettings]
}

// categorySettings are a policy's categories in the form that the agendas take, made once per policy.
type categorySettings struct {
	policy     *policy.Policy
	categories map[string]agenda.Settings
	names      []string // of all categories, when there are not too many
}

// Settings gives the settings of a user's category, with the user's own limits where there are any. A category that the
// policy no longer names, because it was reloaded while something of it waited, is throttled as the default category.
func (r *rules) Settings(userID, category string) agenda.Settings {
	found := r.ofCategory(category)
	if r.pausedFor != nil {
		found.Paused = r.pausedFor(category)
	}
	if r.own == nil || userID == "" {
		return found
	}
	if own, ok := r.own.Rules(userID, category); ok {
		found.Plan = found.Plan.WithOwnLimits(own)
	}
	return found
}

// atMostAtOnce is how many categories a policy may have for what waits to be granted in the round that pulls it: their
// settings go with each round.
const atMostAtOnce = 32

// categories lists those of the policy in force, unless there are too many.
func (r *rules) categories() []string {
	r.ofCategory(policy.DefaultCategory)
	return r.cached.Load().names
}

// personal tells whether a user has limits of his own.
func (r *rules) personal(userID string) bool { return r.own != nil && r.own.Has(userID) }

func (r *rules) ofCategory(category string) agenda.Settings {
	current := r.current()
	cached := r.cached.Load()
	if cached == nil || cached.policy != current {
		cached = &categorySettings{policy: current, categories: map[string]agenda.Settings{}}
		for name, c := range current.Categories {
			cached.categories[name] = agenda.Settings{
				Plan: c.Plan, MaxDefer: c.MaxDefer, BypassFrom: current.BypassFrom(c),
			}
		}
		if len(cached.categories) <= atMostAtOnce {
			cached.names = slices.Sorted(maps.Keys(cached.categories))
		}
		r.cached.Store(cached)
	}
	if found, ok := cached.categories[category]; ok {
		return found
	}
	return cached.categories[policy.DefaultCategory]
}

// HasCategory implements intake's Rules.
func (r *rules) HasCategory(name string) bool {
	_, ok := r.current().Category(name)
	return ok
}

// MaxDefer implements intake's Rules.
func (r *rules) MaxDefer(category string) time.Duration { return r.Settings("", category).MaxDefer }

// MaxContent implements intake's Rules. A channel that is not configured is refused by CheckDelivery.
func (r *rules) MaxContent(channel notification.Channel) int {
	return r.channels[channel].MostContent()
}

// CheckDelivery implements intake's Rules.
func (r *rules) CheckDelivery(n *notification.Notification) error {
	channel, ok := r.channels[n.Channel]
	if !ok {
		return &notification.FieldError{Field: "channel", Message: "is not a configured channel"}
	}
	var faults []error
	if n.To == "" && !channel.Local {
		// It goes to the user's devices, whose targets were checked.
	} else if err := channel.CheckTarget(n.To); err != nil {
		faults = append(faults, &notification.FieldError{Field: "to", Message: err.Error()})
	}
	if err := channel.CheckContent(n); err != nil {
		field := "body"
		if len(n.Override) > 0 {
			field = string(n.Channel)
		}
		faults = append(faults, &notification.FieldError{Field: field, Message: err.Error()})
	}
	return errors.Join(faults...)
}

// Retry gives the dispatcher its retry policy.
func (r *rules) Retry() dispatch.RetryPolicy {
	retry := r.current().Retry
	return dispatch.RetryPolicy{
		MaxAttempts: retry.MaxAttempts,
		Backoff:     func(failures int) time.Duration { return retry.Backoff(failures, rand.Float64) },
	}
}
