package effective

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
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

// countsByPeriod reports whether a rule of a plan counts by day, week or month, so that its users' time zone matters.
func countsByPeriod(plan throttle.Plan) bool {
	return slices.ContainsFunc(plan.Rules, func(r throttle.Rule) bool { return r.Period > 0 })
}
