package calendar

import (
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Period is a unit of the calendar, for limits such as three a day.
type Period uint8

// The periods. A week begins on Monday.
const (
	Day Period = iota + 1
	Week
	Month
)

// periods are the names in a policy.
var periods = map[string]Period{"day": Day, "week": Week, "month": Month}

// ParsePeriod reads day, week or month.
func ParsePeriod(text string) (Period, bool) {
	period, ok := periods[text]
	return period, ok
}

// String is the period's name in a policy.
func (p Period) String() string {
	for name, period := range periods {
		if period == p {
			return name
		}
	}
	return "invalid"
}

// Bounds are the beginnings of the period that a moment is in, and of the periods after it, n+1 in all. A period begins
// at the last moment at which the zone's clock shows its midnight, so that every moment is in one period.
func (p Period) Bounds(now throttle.Micros, zone *time.Location, n int) []throttle.Micros {
	first := p.first(dateOf(now.Time().In(zone)))
	if _, begin := first.readings(0, zone); begin > now {
		// The clock shows the period's first hour for the first of two times.
		first = p.first(first.plus(-1))
	}
	bounds := make([]throttle.Micros, 0, n+1)
	for date := first; len(bounds) <= n; date = p.next(date) {
		if _, begin := date.readings(0, zone); len(bounds) == 0 || begin > bounds[len(bounds)-1] {
			bounds = append(bounds, begin)
		}
	}
	return bounds
}

// first is the first date of the period that a date is in.
func (p Period) first(date Date) Date {
	switch p {
	case Week:
		return date.plus(-(int(date.weekday()) + 6) % 7)
	case Month:
		return Date{date.Year, date.Month, 1}
	case Day:
	}
	return date
}

// next is the first date of the period after the one that begins on a date.
func (p Period) next(first Date) Date {
	switch p {
	case Week:
		return first.plus(7)
	case Month:
		return dateOf(Date{first.Year, first.Month + 1, 1}.utc(0))
	case Day:
	}
	return first.plus(1)
}
