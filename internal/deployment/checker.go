package deployment

import (
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// checkEvery is how often the store in Postgres is checked, checkRedisEvery how often that on Redis, all of which a
	// check reads.
	checkEvery      = time.Minute
	checkRedisEvery = 10 * time.Minute
)

// Checker checks that limits held, and reports to found. It exempts what the follower knows to be paused.
func (d *Deployment) Checker(follower *control.Follower, found func(violations, unended int)) *invariant.Checker {
	every := checkRedisEvery
	if d.Pool != nil {
		every = checkEvery
	}
	paused := func(o invariant.Open) bool { return d.paused(follower, o) }
	return invariant.New(invariant.Config{
		Source: d.Store, Window: d.Rules.LongestWindow, InForce: d.Rules.Since, Paused: paused, Every: every,
		Limits: func(userID, category string) invariant.Limits {
			in := d.Rules.Settings(userID, category)
			return invariant.Limits{Plan: in.Plan, BypassFrom: in.BypassFrom}
		},
		MaxLife: func(o invariant.Open) time.Duration {
			return d.Rules.MaxLife(o.Category, notification.Channel(o.Channel))
		},
		Hours: func(m invariant.Admission) invariant.Hours {
			return invariant.Hours(d.Rules.HoursAt(m.UserID, m.Category, m.Zone, m.At))
		},
		Period: func(m invariant.Admission, p throttle.Period) throttle.Interval {
			return d.Rules.PeriodAt(m.UserID, m.Zone, p, m.At)
		},
		Remembers: d.Rules.Remembers,
		Version:   func() string { return d.Rules.Current().Version() },
		Cleared:   d.Control.ClearedSince,
		Found:     found, Log: d.cfg.Log,
	})
}

// paused reports whether operators paused what a notification belongs to, or the policy does not name its category.
func (d *Deployment) paused(follower *control.Follower, o invariant.Open) bool {
	partition := dispatch.BacklogOf(o.UserID, o.Category, d.cfg.Settings.Partitions).Partition
	return d.Rules.CheckCategory(o.Category) != nil ||
		follower.Wait(control.Channel, o.Channel) > 0 || follower.Wait(control.Category, o.Category) > 0 ||
		follower.Wait(control.Partition, strconv.Itoa(partition)) > 0
}
