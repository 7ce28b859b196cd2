package effective

import (
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Past is when nothing was admitted around a moment that has passed.
type Past struct {
	// Closed are the closed intervals around the moment, Spread that after them.
	Closed throttle.Closed
	Spread time.Duration
	// Until is the moment until which the user wanted quiet; 0 for none.
	Until throttle.Micros
	// ExemptFrom is the least urgent priority for which none of this holds; 0 for none.
	ExemptFrom notification.Priority
}

// HoursAt returns when nothing was admitted around a moment that has passed, for a user's category in a zone, as policy
// and preferences are now. Without the name of a zone it is the user's. It is worked out apart from what the agendas
// have.
func (p *Policy) HoursAt(userID, category, zone string, at throttle.Micros) Past {
	p.ofCategory(category)
	cached := p.cached.Load()
	wish, until := p.Own.Of(userID)
	if until <= at {
		until = 0
	}
	if cached.policy.QuietHours == nil && wish.Hours == nil && until == 0 || !cached.holds(category) {
		return Past{}
	}
	past := Past{Until: until, ExemptFrom: cached.exemptFrom()}
	past.Closed, past.Spread = cached.past.of(cached.policy, wish, p.zoneNamed(zone, wish), at.Time())
	if cached.category(category).Quiet > policy.Bundle {
		past.Spread = 0
	}
	return past
}

// PeriodAt returns the day, week or month that a moment is in, in a zone. Without the name of a zone it is the user's.
func (p *Policy) PeriodAt(userID, zone string, period throttle.Period, at throttle.Micros) throttle.Interval {
	wish, _ := p.Own.Of(userID)
	bounds := calendar.Bounds(period, at, p.zoneNamed(zone, wish), 1)
	return throttle.Interval{From: bounds[0], Until: bounds[1]}
}

// zoneNamed is the zone with a name, or that of users with a wish if there is none with it.
func (p *Policy) zoneNamed(zone string, wish *preferences.Wish) *time.Location {
	location := p.zoneOf(wish)
	if zone != "" && zone != location.String() {
		if named, err := calendar.ParseZone(zone); err == nil {
			return named
		}
	}
	return location
}

// holds reports whether nothing of a category is admitted in quiet hours.
func (c *categorySettings) holds(category string) bool {
	found := c.category(category)
	return !found.Bypass && found.Quiet <= policy.Drop
}

// exemptFrom is the least urgent priority for which no quiet hours hold.
func (c *categorySettings) exemptFrom() notification.Priority {
	if of := c.policy.QuietHours; of != nil {
		return of.ExemptFrom
	}
	return notification.PriorityCritical
}

// category is what the policy says of a category; of the default category when it does not name it.
func (c *categorySettings) category(name string) policy.Category {
	found, ok := c.policy.Category(name)
	if !ok {
		found = c.policy.Categories[policy.DefaultCategory]
	}
	return found
}
