package effective

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// periodsAhead is how many beginnings of a period are known in advance.
const periodsAhead = 8

// periods are when days, weeks and months begin in each time zone.
type periods struct {
	kept[string, throttle.Boundaries]
}

// in returns the boundaries in a zone.
func (p *periods) in(location *time.Location, now time.Time) throttle.Boundaries {
	zone := location.String()
	boundaries, ok := p.get(zone, now)
	if ok {
		return boundaries
	}
	for i := range boundaries {
		period := throttle.Period(i + 1)
		boundaries[i] = calendar.Bounds(period, throttle.MicrosOf(now.Add(-clocksApart)), location, periodsAhead)
	}
	p.put(zone, now, boundaries)
	return boundaries
}

// begin tells settings when the periods of a user with a wish begin that their rules count in.
func (p *Policy) begin(s *agenda.Settings, wish *preferences.Wish) {
	for _, r := range s.Plan.Rules {
		if r.Period > 0 && s.Plan.Boundaries[r.Period-1] == nil {
			zone := p.zoneOf(wish)
			s.Plan.Boundaries[r.Period-1], s.Basis.Zone = p.periods.in(zone, p.now())[r.Period-1], zone.String()
		}
	}
}

// momentsAhead is how many times of a category's digests are known in advance.
const momentsAhead = 24

// timesOf names the times of a category's digests in a time zone.
type timesOf struct{ category, zone string }

// digest has what waits of a user with a wish go as one, as the policy says.
func (p *Policy) digest(s *agenda.Settings, category string, wish *preferences.Wish) {
	cached := p.cached.Load()
	c := cached.category(category)
	if s.Digest == nil || c.Digest == nil || len(c.Digest.At) == 0 {
		return
	}
	zone, now := p.zoneOf(wish), p.now()
	name := timesOf{category, zone.String()}
	timed, ok := cached.moments.get(name, now)
	if !ok {
		with := *s.Digest
		from := throttle.MicrosOf(now.Add(-clocksApart))
		with.Moments = calendar.Moments(c.Digest.At, c.Digest.Days, from, zone, momentsAhead)
		timed = &with
		cached.moments.put(name, now, timed)
	}
	s.Digest, s.Basis.Zone = timed, name.zone
}

// digestOf is how what waits in a category goes as one, without the times; nil for not.
func digestOf(c policy.Category) *player.Digest {
	of, quiet := c.Digest, c.Quiet == policy.Bundle
	bundles := of == nil && (quiet || slices.ContainsFunc(c.Overflow, isDigest))
	if bundles {
		of = policy.DefaultDigest()
	}
	if of == nil || c.Bypass {
		return nil
	}
	return &player.Digest{
		MaxItems: of.MaxItems, Alone: of.Except, Wait: of.Wait, Extend: of.Extend, Max: of.Max,
		Bundles: bundles, ByLadder: bundles && !quiet,
	}
}

func isDigest(r notification.Rung) bool { return r.Then == notification.OverflowDigest }

// countsByPeriod reports whether a rule of a plan counts by day, week or month, so that its users' time zone matters.
func countsByPeriod(plan throttle.Plan) bool {
	return slices.ContainsFunc(plan.Rules, func(r throttle.Rule) bool { return r.Period > 0 })
}
