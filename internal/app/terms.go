package app

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	recordpostgres "github.com/pacer-notify/pacer/internal/record/postgres"
)

// rules answers, from the policy in force and the configured channels, what mailboxes, intake and dispatch ask.
type rules struct {
	current func() *policy.Policy
	// checkers are of the configured channels.
	checkers checkers
	own      *recordpostgres.OwnLimits // nil without Postgres
	cached   atomic.Pointer[terms]
}

// terms are a policy's categories in the form that the mailboxes take, made once per policy.
type terms struct {
	policy     *policy.Policy
	categories map[string]mailbox.Terms
}

// Terms gives the terms of a user's category, with the user's own limits where there are any. A category that the policy no
// longer names, because it was reloaded while something of it waited, is throttled as the default category.
func (r *rules) Terms(userID, category string) mailbox.Terms {
	terms := r.categoryTerms(category)
	if r.own == nil || userID == "" {
		return terms
	}
	if own, ok := r.own.Rules(userID, category); ok {
		// The user may take them back at any time, and must not have become a stranger to the policy's limits by then.
		terms.Plan.Dormant, terms.Plan.Rules = terms.Plan.Rules, own
	}
	return terms
}

func (r *rules) categoryTerms(category string) mailbox.Terms {
	current := r.current()
	cached := r.cached.Load()
	if cached == nil || cached.policy != current {
		cached = &terms{policy: current, categories: map[string]mailbox.Terms{}}
		for name, c := range current.Categories {
			bypass := int(current.BypassPriority)
			if c.Bypass {
				bypass = mailbox.BypassAll
			}
			cached.categories[name] = mailbox.Terms{Plan: c.Plan, MaxDefer: c.MaxDefer, BypassFrom: bypass}
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
func (r *rules) MaxDefer(category string) time.Duration { return r.Terms("", category).MaxDefer }

// CheckDelivery implements intake's Rules.
func (r *rules) CheckDelivery(n *notification.Notification) error {
	checker, ok := r.checkers[n.Channel]
	if !ok {
		return &notification.FieldError{Field: "channel", Message: "is not a configured channel"}
	}
	var faults []error
	if n.To == "" && n.Channel != notification.ChannelLog {
		// It goes to the user's devices, whose targets were checked.
	} else if err := checker.CheckTarget(n.To); err != nil {
		faults = append(faults, &notification.FieldError{Field: "to", Message: err.Error()})
	}
	if err := checker.CheckContent(n); err != nil {
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
