package storetest

import (
	"context"
	"log/slog"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// checkerOf makes an invariant checker of the store. Its limits and what is changed may differ from those under which
// the store admits. The function that it returns makes a round so long after now, and returns what the round found.
func checkerOf(p *probe, limits invariant.Limits, changes ...func(*invariant.Config),
) func(after time.Duration) (violations, unended int) {
	var violations, unended int
	cfg := invariant.Config{
		Source:  p.Subject,
		Limits:  func(string, string) invariant.Limits { return limits },
		MaxLife: func(invariant.Open) time.Duration { return time.Hour },
		Window:  func(string) time.Duration { return time.Hour },
		InForce: func() time.Time { return time.Time{} },
		Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return nil, nil },
		Paused:  func(invariant.Open) bool { return false },
		Behind:  time.Microsecond,
		Found:   func(v, u int) { violations, unended = v, u },
		Log:     slog.New(slog.DiscardHandler),
	}
	for _, change := range changes {
		change(&cfg)
	}
	checker := invariant.New(cfg)
	return func(after time.Duration) (int, int) {
		p.Helper()
		if err := checker.Round(p.Context(), time.Now().Add(after)); err != nil {
			p.Fatal(err)
		}
		return violations, unended
	}
}

// rounds are made by checkers with these names, of which each has to find so many violations.
type rounds map[string]struct {
	make func(after time.Duration) (violations, unended int)
	want int
}

// want makes the rounds.
func (r rounds) want(p *probe) {
	p.Helper()
	for name, c := range r {
		if violations, unended := c.make(time.Second); violations != c.want || unended != 0 {
			p.Errorf("%s: %d violations and %d unended, want %d and 0", name, violations, unended, c.want)
		}
	}
}

// checkerSees: the invariant checker finds each admission that came too early, and each notification that has not ended
// in time, once.
func checkerSees(p *probe) {
	under := func(rule throttle.Rule, changes ...func(*invariant.Config)) func(time.Duration) (int, int) {
		return checkerOf(p, invariant.Limits{Plan: throttle.Plan{Rules: []throttle.Rule{rule}}}, changes...)
	}
	onChannels := func(names string) func(time.Duration) (int, int) {
		return under(throttle.Rule{
			Max: 2, Per: time.Minute, Kind: throttle.KindNamed, Cap: "marketing", Channels: names,
		})
	}
	now := throttle.MicrosOf(time.Now())
	daily := func(from, until time.Duration) func(time.Duration) (int, int) {
		return under(throttle.Rule{Max: 1, Per: throttle.Day.Longest(), Period: throttle.Day},
			func(cfg *invariant.Config) {
				cfg.Period = func(invariant.Admission, throttle.Period) throttle.Interval {
					return throttle.Interval{From: now.Add(from), Until: now.Add(until)}
				}
			})
	}
	kept := throttle.Rule{Max: 3, Per: time.Minute, Kind: throttle.KindCap, Reserve: throttle.Reserve{0, 1}}
	loose := under(throttle.Rule{Max: 3, Per: time.Minute})
	all := rounds{
		"one a minute":                {under(throttle.Rule{Max: 1, Per: time.Minute}), 1},
		"three a minute":              {loose, 0},
		"two in all, the user's":      {under(throttle.Rule{Max: 2, Per: time.Minute, Kind: throttle.KindCap}), 1},
		"two, a third for the urgent": {under(kept), 1},
		"a gap":                       {under(throttle.Rule{Max: 1, Per: time.Minute, Kind: throttle.KindGap}), 1},
		"one a day":                   {daily(-time.Hour, time.Hour), 1},
		"one a day, on another":       {daily(time.Hour, 25*time.Hour), 0},
		"two on these channels":       {onChannels("fcm log"), 1},
		"two on other channels":       {onChannels("fcm apns"), 0},
	}
	for _, category := range []string{"free", "free", "other"} {
		p.accept(func(n *notification.Notification) { n.Category = category })
		p.settle(p.grant(), wasDelivered)
	}
	p.accept(nil) // its last attempt reached nobody: it was delivered by an earlier one
	p.settle(p.grant(), dispatch.Outcome{Disposition: dispatch.Delivered, Reason: "to some devices", Refund: true})
	waits := p.accept(func(n *notification.Notification) { n.SendAt = time.Now().Add(24 * time.Hour) })
	all.want(p)
	for name, c := range all {
		if violations, _ := c.make(2 * time.Second); violations != 0 {
			p.Errorf("%s: the next round finds %d again", name, violations)
		}
	}
	if _, unended := loose(24*time.Hour + 30*time.Minute); unended != 0 {
		p.Errorf("%s may still wait, and is found", waits.ID)
	}
	for want := range 2 {
		if _, unended := loose(26 * time.Hour); unended != 1-want {
			p.Errorf("%d are found that should have ended, want %d", unended, 1-want)
		}
	}
}

// checkerSeesBehindMany: the invariant checker finds what should have ended, however many others may still wait.
func checkerSeesBehindMany(p *probe) {
	const many, overdue = 1010, 10 // more than a page of any store
	acceptMany := func(n int, change func(*notification.Notification)) {
		batch := make([]*notification.Notification, n)
		for i := range batch {
			batch[i] = p.notification(change)
		}
		p.acceptAll(batch...)
	}
	acceptMany(many, func(n *notification.Notification) { n.SendAt = time.Now().Add(24 * time.Hour) })
	acceptMany(overdue, func(n *notification.Notification) { n.ExpiresAt = time.Now().Add(time.Hour) })
	round := checkerOf(p, invariant.Limits{})
	if _, unended := round(2 * time.Hour); unended != overdue {
		p.Errorf("%d are found that should have ended, want %d", unended, overdue)
	}
}

// checkerSeesHours: the invariant checker finds what was admitted in closed hours, or in the spread after them, unless
// it is exempt or was about to expire.
func checkerSeesHours(p *probe) {
	now := throttle.MicrosOf(time.Now())
	during := func(from, until, spread time.Duration, exempt notification.Priority,
	) func(*invariant.Config) {
		return func(cfg *invariant.Config) {
			cfg.Hours = func(invariant.Admission) invariant.Hours {
				return invariant.Hours{
					Closed: throttle.Closed{{From: now.Add(from), Until: now.Add(until)}},
					Spread: spread, ExemptFrom: exempt,
				}
			}
		}
	}
	quiet := func(until time.Duration) func(*invariant.Config) {
		return func(cfg *invariant.Config) {
			cfg.Hours = func(invariant.Admission) invariant.Hours {
				return invariant.Hours{Until: now.Add(until), ExemptFrom: notification.PriorityHigh}
			}
		}
	}
	const minute = time.Minute
	all := rounds{
		"a night":                {checkerOf(p, invariant.Limits{}, during(-minute, minute, 0, 1)), 3},
		"those exempt":           {checkerOf(p, invariant.Limits{}, during(-minute, minute, 0, 2)), 2},
		"a night that has ended": {checkerOf(p, invariant.Limits{}, during(-2*minute, -minute, 0, 1)), 0},
		"the spread after it":    {checkerOf(p, invariant.Limits{}, during(-2*minute, -minute, 10*minute, 1)), 2},
		"quiet until later":      {checkerOf(p, invariant.Limits{}, quiet(minute)), 2},
		"quiet until before":     {checkerOf(p, invariant.Limits{}, quiet(-minute)), 0},
		"no night":               {checkerOf(p, invariant.Limits{}), 0},
	}
	for _, change := range []func(n *notification.Notification){
		func(n *notification.Notification) { n.Priority = notification.PriorityHigh },
		nil,
		func(n *notification.Notification) { n.ExpiresAt = time.Now().Add(minute / 2) },
	} {
		p.accept(change)
		p.settle(p.grant(), wasDelivered)
	}
	all.want(p)
}

// checkerSeesTheBasis: the invariant checker judges each admission by the policy and the zone that it was decided by,
// not by those of the moment at which it looks.
func checkerSeesTheBasis(p *probe) {
	now := throttle.MicrosOf(time.Now())
	all := throttle.Interval{From: now.Add(-time.Hour), Until: now.Add(time.Hour)}
	var versions []string
	inKathmandu := func(cfg *invariant.Config) {
		cfg.Hours = func(m invariant.Admission) invariant.Hours {
			if m.Zone != "Asia/Kathmandu" {
				return invariant.Hours{}
			}
			return invariant.Hours{Closed: throttle.Closed{all}}
		}
	}
	// What was decided elsewhere was decided on another day.
	theDayThere := func(cfg *invariant.Config) {
		cfg.Period = func(m invariant.Admission, _ throttle.Period) throttle.Interval {
			if m.Zone != "Asia/Kathmandu" {
				return throttle.Interval{From: now.Add(time.Hour), Until: now.Add(2 * time.Hour)}
			}
			return all
		}
	}
	under := func(version int) func(*invariant.Config) {
		return func(cfg *invariant.Config) { cfg.Version = func() string { return versions[version] } }
	}
	daily := invariant.Limits{Plan: throttle.Plan{Rules: []throttle.Rule{
		{Max: 1, Per: throttle.Day.Longest(), Period: throttle.Day, Kind: throttle.KindCap},
	}}}
	checkers := rounds{
		"the zone":                     {checkerOf(p, invariant.Limits{}, inKathmandu), 2},
		"the zone, and one version":    {checkerOf(p, invariant.Limits{}, inKathmandu, under(0)), 1},
		"the day there":                {checkerOf(p, daily, theDayThere), 1},
		"the day, and a version":       {checkerOf(p, daily, theDayThere, under(1)), 1},
		"the day, and another version": {checkerOf(p, daily, theDayThere, under(0)), 0},
	}
	for _, category := range []string{"changing", "changing", "free"} {
		p.accept(func(n *notification.Notification) { n.Category = category })
		g := p.grant()
		versions = append(versions, g.Basis.PolicyVersion)
		p.settle(g, wasDelivered)
	}
	checkers.want(p)
}
