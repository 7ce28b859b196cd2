package calendar

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Moments are when a zone's clock shows one of these times on one of these days: the last of them that is over at a
// moment, then the n that follow, within eight days. A time that the clock skips counts when the clock has passed it.
func Moments(times []Clock, days Days, at throttle.Micros, zone *time.Location, n int) []throttle.Micros {
	const week = 7
	var all []throttle.Micros
	today := dateOf(at.Time().In(zone))
	for day := -week - 1; day <= week+1; day++ {
		date := today.plus(day)
		if !days.Has(date.weekday()) {
			continue
		}
		for _, clock := range times {
			first, _ := date.readings(clock, zone)
			all = append(all, first)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	over := slices.IndexFunc(all, func(m throttle.Micros) bool { return m > at })
	if over < 0 {
		over = len(all)
	}
	from := max(0, over-1)
	return slices.Clip(all[from:min(len(all), over+n)])
}
