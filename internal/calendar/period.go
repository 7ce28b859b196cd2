package calendar

import (
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Bounds are the beginnings of the period that a moment is in, and of the periods after it, n+1 in all. A period begins
// at the first moment at which the zone's clock shows its midnight, and once: what the clock shows again after a switch
// sets it back belongs to the period that has begun.
func Bounds(period throttle.Period, now throttle.Micros, zone *time.Location, n int) []throttle.Micros {
	first := firstOf(period, dateOf(now.Time().In(zone)))
	next := firstAfter(period, first)
	if begin, _ := next.readings(0, zone); begin <= now {
		first = next // it had begun when the clock was set back
	}
	bounds := make([]throttle.Micros, 0, n+1)
	for date := first; len(bounds) <= n; date = firstAfter(period, date) {
		if begin, _ := date.readings(0, zone); len(bounds) == 0 || begin > bounds[len(bounds)-1] {
			bounds = append(bounds, begin)
		}
	}
	return bounds
}

// firstOf is the first date of the period that a date is in.
func firstOf(period throttle.Period, date Date) Date {
	switch period {
	case throttle.Week:
		return date.plus(-(int(date.weekday()) + 6) % 7)
	case throttle.Month:
		return Date{date.Year, date.Month, 1}
	case throttle.Day:
	}
	return date
}

// firstAfter is the first date of the period after the one that begins on a date.
func firstAfter(period throttle.Period, first Date) Date {
	switch period {
	case throttle.Week:
		return first.plus(7)
	case throttle.Month:
		return dateOf(Date{first.Year, first.Month + 1, 1}.utc(0))
	case throttle.Day:
	}
	return first.plus(1)
}
