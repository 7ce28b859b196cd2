package effective

import (
	"slices"
	"sync"
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
	mu    sync.Mutex
	known map[string]periodsOfZone
}

// periodsOfZone are the boundaries in one zone, and when they have to be worked out again.
type periodsOfZone struct {
	boundaries throttle.Boundaries
	until      time.Time
}

// in gives the boundaries in a zone.
func (p *periods) in(location *time.Location, now time.Time) throttle.Boundaries {
	zone := location.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.known[zone]
	if ok && now.Before(found.until) && found.until.Sub(now) <= hoursLife {
		return found.boundaries
	}
	found.until = now.Add(hoursLife)
	for i := range found.boundaries {
		period := calendar.Period(i + 1)
		found.boundaries[i] = period.Bounds(throttle.MicrosOf(now.Add(-clocksApart)), location, periodsAhead)
	}
	if p.known == nil {
		p.known = map[string]periodsOfZone{}
	}
	p.known[zone] = found
	return found.boundaries
}

// begin tells settings when the periods of a user with a wish begin that their rules count in.
func (p *Policy) begin(s *agenda.Settings, wish *preferences.Wish) {
	for _, r := range s.Plan.Rules {
		if r.Period > 0 && s.Plan.Boundaries[r.Period-1] == nil {
			zone := p.zoneOf(wish)
			s.Plan.Boundaries[r.Period-1], s.Basis.Zone = p.periods.in(zone, time.Now())[r.Period-1], zone.String()
		}
	}
}

// countsByPeriod tells whether a rule of a plan counts by day, week or month, so that its users' time zone matters.
func countsByPeriod(plan throttle.Plan) bool {
	return slices.ContainsFunc(plan.Rules, func(r throttle.Rule) bool { return r.Period > 0 })
}
