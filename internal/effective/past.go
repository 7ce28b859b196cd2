package effective

import (
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// HoursAt gives the closed intervals around a moment that has passed, for a user's category in a zone: in none of these
// anything was admitted. Without the name of a zone it is the user's. They are worked out apart from those that the
// agendas have.
func (p *Policy) HoursAt(userID, category, zone string, at throttle.Micros) throttle.Closed {
	p.ofCategory(category)
	cached := p.cached.Load()
	wish, _ := p.Own.Of(userID)
	if cached.policy.QuietHours == nil && wish.Hours == nil || !cached.holds(category) {
		return nil
	}
	location := p.zoneOf(wish)
	if zone != "" && zone != location.String() {
		if named, err := calendar.ParseZone(zone); err == nil {
			location = named
		}
	}
	closed, _ := cached.past.of(cached.policy, wish, location, at.Time())
	return closed
}

// holds tells whether nothing of a category is admitted in quiet hours.
func (c *categorySettings) holds(category string) bool {
	found := c.category(category)
	return !found.Bypass && (found.Quiet == policy.Hold || found.Quiet == policy.Drop)
}

// category is what the policy says of a category; of the default category when it does not name it.
func (c *categorySettings) category(name string) policy.Category {
	found, ok := c.policy.Category(name)
	if !ok {
		found = c.policy.Categories[policy.DefaultCategory]
	}
	return found
}
