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
	// checkEvery is how often the store in Postgres is checked, checkRedisEvery how often that on Redis, all of which a
	// check reads.
	checkEvery      = time.Minute
	checkRedisEvery = 10 * time.Minute
)

// openChecker sets up the check that limits held, in the processes with the ops role.
func (a *App) openChecker() {
	d := a.deployment
	every := checkRedisEvery
	if d.Pool != nil {
		every = checkEvery
	}
	a.checker = invariant.New(invariant.Config{
		Source: d.Store, Window: d.Rules.LongestWindow, InForce: d.Rules.Since, Paused: a.paused, Every: every,
		Limits: func(userID, category string) invariant.Limits {
			in := d.Rules.Settings(userID, category)
			return invariant.Limits{Plan: in.Plan, BypassFrom: in.BypassFrom, MaxLife: d.Rules.MaxLife(category)}
		},
		Cleared: func(ctx context.Context, since time.Time) (map[string]bool, error) {
			return control.ClearedSince(ctx, d.Control, since)
		},
		Found: a.metrics.Checked, Log: a.log,
	})
}

// paused tells whether operators paused what a notification belongs to.
func (a *App) paused(o invariant.Open) bool {
	partition := dispatch.BacklogOf(o.UserID, o.Category, a.cfg.Partitions).Partition
	return a.follower.Wait(control.Channel, o.Channel) > 0 || a.follower.Wait(control.Category, o.Category) > 0 ||
		a.follower.Wait(control.Partition, strconv.Itoa(partition)) > 0
}
