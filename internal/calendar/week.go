package calendar

import (
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// ClosedOn lists when the window is closed on a weekday, from midnight to midnight, in a week without a switch. Its
// dates are not in it.
func (w Window) ClosedOn(day time.Weekday) []Range {
	closed, first := w.closedMinutes(), int(day)*int(minutesOfDay)
	var ranges []Range
	for minute := range minutesOfDay {
		switch last := len(ranges) - 1; {
		case !closed[first+int(minute)]:
		case last >= 0 && ranges[last].To == minute:
			ranges[last].To++
		default:
			ranges = append(ranges, Range{From: minute, To: minute + 1})
		}
	}
	return ranges
}

// LongestClosed is the longest time for which the window is closed without a break, in weeks without a switch and
// around its dates.
func (w Window) LongestClosed() time.Duration {
	closed, longest, run := w.closedMinutes(), 0, 0
	for i := range 2 * minutesOfWeek { // twice, for what lasts from Saturday to Sunday
		if run++; !closed[i%minutesOfWeek] {
			run = 0
		}
		longest = max(longest, run)
	}
	all := time.Duration(longest) * time.Minute
	const around = 10 // days: beside some dates in a row the window is closed for less than a week
	for _, date := range w.Dates {
		if slices.Contains(w.Dates, date.plus(-1)) {
			continue
		}
		row := 1
		for slices.Contains(w.Dates, date.plus(row)) {
			row++
		}
		near, _ := w.between(date.plus(-around), 2*around+row, time.UTC)
		noon := throttle.MicrosOf(date.utc(minutesOfDay / 2))
		for _, interval := range near {
			if interval.From <= noon && noon < interval.Until {
				all = max(all, interval.Until.Sub(interval.From))
			}
		}
	}
	return all
}

// Weekday is the day of the week of a date.
func (d Date) Weekday() time.Weekday { return d.weekday() }
