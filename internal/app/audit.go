package app

import (
	"context"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
)

const (
	// auditEvery is how often the store in Postgres is audited, auditRedisEvery that in Redis, all of which is gone
	// through.
	auditEvery      = time.Minute
	auditRedisEvery = 10 * time.Minute
	// longestRetryAfter is the longest wait that a provider may ask for.
	longestRetryAfter = time.Hour
	// clearedAction is that of the audit trail which says that a user's windows were cleared.
	clearedAction = "clear"
	// clearingsRead is how many entries of the audit trail are looked at for that.
	clearingsRead = 1000
)

// openAuditor sets up the checker of the store, in the processes with the ops role.
func (a *App) openAuditor() {
	every := auditRedisEvery
	if a.pool != nil {
		every = auditEvery
	}
	a.checker = invariant.New(invariant.Config{
		Source: a.store, Terms: a.auditTerms, Window: a.rules.longestWindow, InForce: a.inForceSince,
		Cleared: a.clearedSince, Resting: a.rests, Every: every, Found: a.metrics.Audited, Log: a.log,
	})
}

func (a *App) auditTerms(userID, category string) invariant.Terms {
	of, retry := a.rules.Settings(userID, category), a.rules.current().Retry
	return invariant.Terms{
		Plan: of.Plan, BypassFrom: of.BypassFrom,
		MaxLife: of.MaxDefer + time.Duration(retry.MaxAttempts)*(retry.MaxBackoff+longestRetryAfter),
	}
}

func (a *App) inForceSince() time.Time {
	if since := a.policySince.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// clearedSince gives the users whose windows were cleared, or who changed their own limits.
func (a *App) clearedSince(ctx context.Context, since time.Time) (map[string]bool, error) {
	entries, err := a.control.Audit(ctx, clearingsRead)
	if err != nil {
		return nil, err
	}
	users := map[string]bool{}
	for _, e := range entries {
		if e.Action == clearedAction && e.At.After(since) {
			users[e.Subject] = true
		}
	}
	return users, nil
}

// rests tells whether operators paused what a notification belongs to.
func (a *App) rests(o invariant.Open) bool {
	partition := dispatch.BacklogOf(o.UserID, o.Category, a.cfg.Partitions).Partition
	return a.follower.Wait(control.Channel, o.Channel) > 0 || a.follower.Wait(control.Category, o.Category) > 0 ||
		a.follower.Wait(control.Partition, strconv.Itoa(partition)) > 0
}
