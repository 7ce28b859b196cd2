package effective

import (
	"math"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// clocksApart is how far the clocks of the stores may be behind this one. Intervals that have ended are kept for that
// long, so that they hold until they have ended for everybody.
const clocksApart = time.Hour

// zoneOf is the time zone of a user: the user's own, else the policy's.
func (p *Policy) zoneOf(wish *preferences.Wish) *time.Location {
	if wish.Zone != nil {
		return wish.Zone
	}
	p.ofCategory(policy.DefaultCategory)
	return p.cached.Load().zone
}

// Personal reports whether a user has other settings than those who have no preferences.
func (p *Policy) Personal(userID string) bool {
	wish, until := p.Own.Of(userID)
	if len(wish.Limits) > 0 || wish.Hours != nil || snoozes(until, p.now()) {
		return true
	}
	if wish.Zone == nil || wish.Zone.String() == p.Current().TimeZone {
		return false
	}
	p.ofCategory(policy.DefaultCategory)
	return p.Current().QuietHours != nil || p.cached.Load().byClock
}

// close has the plan of a user's category closed in the user's quiet hours.
func (p *Policy) close(s *agenda.Settings, userID, category string, wish *preferences.Wish, until throttle.Micros) {
	cached := p.cached.Load()
	c := cached.category(category)
	if !cached.holds(category) {
		return
	}
	if plan, exemptFrom, quiet := p.closed(s.Plan, c.Quiet, userID, wish, until); quiet {
		s.Plan, s.ExemptFrom, s.Drops, s.Zone = plan, exemptFrom, c.Quiet == policy.Drop, p.zoneOf(wish)
		s.Basis.Zone = s.Zone.String()
	}
}

// Passive reports whether a notification that goes out at a moment is not to disturb its user: quiet hours hold, and
// its category passes them so.
func (p *Policy) Passive(n *notification.Notification, at time.Time) bool {
	p.ofCategory(n.Category)
	cached := p.cached.Load()
	c := cached.category(n.Category)
	if c.Bypass || c.Quiet != policy.Passive || n.Priority.AtLeast(cached.policy.BypassFrom(c)) {
		return false
	}
	wish, until := p.Own.Of(n.UserID)
	plan, exemptFrom, quiet := p.closed(throttle.Plan{}, c.Quiet, n.UserID, wish, until)
	if !quiet || n.Priority.AtLeast(exemptFrom) {
		return false
	}
	moment := throttle.MicrosOf(at)
	return plan.Closed.Open(moment) > moment
}

// closed gives a plan that is closed in a user's quiet hours, and the least urgent priority for which it is not; false
// when the user has none. Only what is held has a spread: it keeps those apart who begin again, and what is dropped or
// goes passively does not wait for the end.
func (p *Policy) closed(plan throttle.Plan, then policy.Then, userID string, wish *preferences.Wish,
	until throttle.Micros,
) (_ throttle.Plan, exemptFrom notification.Priority, quiet bool) {
	cached, now := p.cached.Load(), p.now()
	snoozes := snoozes(until, now)
	if cached.policy.QuietHours == nil && wish.Hours == nil && !snoozes {
		return plan, 0, false
	}
	plan.Closed, plan.Spread = cached.hours.of(cached.policy, wish, p.zoneOf(wish), now)
	if then > policy.Bundle {
		plan.Spread = 0
	}
	if snoozes {
		// A user who wants quiet until a moment means that moment: nothing is spread after it, unless a closed
		// interval goes on there, which ends as it always does. The beginning does not matter, since it has
		// passed.
		inside := func(i throttle.Interval) bool { return i.From <= until && until <= i.Until }
		if !slices.ContainsFunc(plan.Closed, inside) {
			plan = plan.For(userID)
		}
		plan.Closed = calendar.Union(plan.Closed, throttle.Closed{{From: 0, Until: until}})
	}
	return plan, cached.exemptFrom(), true
}

// snoozes reports whether a user may want quiet until a moment that has not passed everywhere.
func snoozes(until throttle.Micros, now time.Time) bool {
	return until > throttle.MicrosOf(now.Add(-clocksApart))
}

// hoursOf names what is closed for a user: the policy's quiet hours, the policy's window with a name, the user's own
// hours, or two of these; in a time zone. Under one policy it is the same for many users.
type hoursOf struct {
	policy            bool
	window, own, zone string
}

// nameHours names what is closed for users with a wish. A window that the policy no longer has stands for the policy's
// quiet hours.
func nameHours(p *policy.Policy, wish *preferences.Wish, zone *time.Location) hoursOf {
	name, own, quiet := hoursOf{zone: zone.String()}, wish.Hours, p.QuietHours
	if own != nil && own.Window != "" {
		if _, known := p.Windows[own.Window]; !known {
			own = nil
		}
	}
	name.policy = quiet != nil && (own == nil || quiet.Required)
	switch {
	case own == nil || own.Off:
	case own.Window != "":
		name.window = own.Window
	default:
		name.own = wish.HoursText
	}
	return name
}

// windows are those that the name stands for.
func (name hoursOf) windows(p *policy.Policy, wish *preferences.Wish) (all []calendar.Window) {
	if name.policy {
		all = append(all, p.QuietHours.Hours)
	}
	if name.window != "" {
		all = append(all, p.Windows[name.window])
	}
	if name.own != "" {
		all = append(all, wish.Hours.Hours)
	}
	return all
}

// hours are the closed intervals of each name. There are some four hundred zones and few windows, however many users
// there are.
type hours struct {
	kept[hoursOf, hoursKnown]
}

// hoursKnown are the intervals, and over how long users begin again after them.
type hoursKnown struct {
	closed throttle.Closed
	spread time.Duration
}

// of returns the closed intervals of users with a wish, and the spread after them.
func (h *hours) of(p *policy.Policy, wish *preferences.Wish, zone *time.Location, now time.Time,
) (throttle.Closed, time.Duration) {
	name := nameHours(p, wish, zone)
	found, ok := h.get(name, now)
	if !ok {
		spread := policy.DefaultSpread
		if p.QuietHours != nil {
			spread = p.QuietHours.Spread
		}
		found = workOut(name.windows(p, wish), zone, now, spread)
		h.put(name, now, found)
	}
	return found.closed, found.spread
}

// workOut works out the coming intervals in which any of the windows is closed. The spread is at most half of the
// shortest time that is open, as in a policy.
func workOut(windows []calendar.Window, zone *time.Location, now time.Time, spread time.Duration) hoursKnown {
	at, known := throttle.MicrosOf(now.Add(-spread-clocksApart)), throttle.Micros(math.MaxInt64)
	var closed throttle.Closed
	for _, window := range windows {
		next, until := window.Next(at, zone)
		closed, known = calendar.Union(closed, next), min(known, until)
		spread = min(spread, window.ShortestOpen()/2)
	}
	for i, interval := range closed[min(1, len(closed)):] {
		if interval.From >= known { // beyond, it is known of one of the windows only
			closed = closed[: i+1 : i+1]
			break
		}
		if len(windows) > 1 {
			spread = min(spread, time.Duration(interval.From-closed[i].Until)*time.Microsecond/2)
		}
	}
	return hoursKnown{closed: closed, spread: spread}
}
