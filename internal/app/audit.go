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
)

// openAuditor sets up the checker of the store, in the processes with the ops role.
func (a *App) openAuditor() {
	every := auditRedisEvery
	if a.pool != nil {
		every = auditEvery
	}
	a.checker = invariant.New(invariant.Config{
		Source: a.store, Limits: a.auditTerms, Window: a.rules.LongestWindow, InForce: a.inForceSince,
		Cleared: func(ctx context.Context, since time.Time) (map[string]bool, error) {
			return control.ClearedSince(ctx, a.control, since)
		}, Paused: a.rests, Every: every, Found: a.metrics.Checked, Log: a.log,
	})
}

func (a *App) auditTerms(userID, category string) invariant.Limits {
	of, retry := a.rules.Settings(userID, category), a.rules.Current().Retry
	return invariant.Limits{
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

// rests tells whether operators paused what a notification belongs to.
func (a *App) rests(o invariant.Open) bool {
	partition := dispatch.BacklogOf(o.UserID, o.Category, a.cfg.Partitions).Partition
	return a.follower.Wait(control.Channel, o.Channel) > 0 || a.follower.Wait(control.Category, o.Category) > 0 ||
		a.follower.Wait(control.Partition, strconv.Itoa(partition)) > 0
}
