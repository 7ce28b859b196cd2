// Package calendar says when a user may be disturbed, and where days, weeks and months begin, in the user's time zone.
//
// People write wall-clock times: quiet from 22:00 to 08:00. This package turns them into stretches of absolute time,
// for each date anew, because an offset of today is wrong after the next switch of daylight saving time. Where the
// clock is ambiguous, doubt makes the quiet longer:
//
//   - A closed stretch begins at the first moment at which the clock shows its beginning, and ends at the last moment
//     at which the clock shows its end.
//   - A time of day that a switch skips is the first moment after the switch.
//
// The clock of GoAlert (github.com/target/goalert, util/timeutil) reads a time of day in the same two ways.
package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Clock is a time of day, in minutes since midnight. 24:00 is the end of the day.
type Clock int

// minutesOfDay is the Clock of the end of a day.
const minutesOfDay Clock = 24 * 60

// ParseClock reads a time of day such as 08:00 or 24:00.
func ParseClock(text string) (Clock, error) {
	var hour, minute int
	if len(text) == len("08:00") && text[2] == ':' {
		if n, err := fmt.Sscanf(text, "%02d:%02d", &hour, &minute); n == 2 && err == nil && hour >= 0 && minute >= 0 &&
			minute < 60 && (hour < 24 || hour == 24 && minute == 0) {
			return Clock(hour*60 + minute), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time of day: write one from 00:00 to 24:00, such as 08:00", text)
}

// String writes 08:00.
func (c Clock) String() string { return fmt.Sprintf("%02d:%02d", int(c)/60, int(c)%60) }

// Days is a set of weekdays; the zero value is every day.
type Days uint8

// On makes the set of the days that are named.
func On(days ...time.Weekday) Days {
	var set Days
	for _, day := range days {
		set |= 1 << day
	}
	return set
}

// Has reports whether a day is in the set.
func (d Days) Has(day time.Weekday) bool { return d == 0 || d&(1<<day) != 0 }

// weekdays are the names in a policy, by [time.Weekday].
var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseDay reads the name of a weekday: mon, tue, wed, thu, fri, sat or sun.
func ParseDay(text string) (time.Weekday, error) {
	if day := slices.Index(weekdays, text); day >= 0 {
		return time.Weekday(day), nil
	}
	return 0, fmt.Errorf("%q is not a weekday: use %s", text, strings.Join(weekdays[1:], ", ")+" or "+weekdays[0])
}

// ParseDays reads a weekday, or several in a row: mon, or mon-fri.
func ParseDays(text string) (Days, error) {
	first, last, several := strings.Cut(text, "-")
	from, err := ParseDay(first)
	if err != nil {
		return 0, err
	}
	days := On(from)
	if !several {
		return days, nil
	}
	to, err := ParseDay(last)
	if err != nil {
		return 0, err
	}
	for day := from; day != to; day = (day + 1) % 7 {
		days |= On((day + 1) % 7)
	}
	return days, nil
}

// Range is a time of day, on some weekdays, up to another time of day, which is no longer part of it. When To is not
// after From, the range ends on the next day; it belongs to the day on which it begins.
type Range struct {
	Days     Days
	From, To Clock
}

// String writes "22:00-08:00" or "mon,tue 08:00-18:00".
func (r Range) String() string {
	times := r.From.String() + "-" + r.To.String()
	if r.Days == 0 {
		return times
	}
	var names []string
	for i := range weekdays {
		if day := time.Weekday((i + 1) % len(weekdays)); r.Days.Has(day) {
			names = append(names, weekdays[day])
		}
	}
	return strings.Join(names, ",") + " " + times
}

// Window says when users are not to be disturbed. The zero value is always open.
type Window struct {
	// Closed are the ranges in which nothing goes out.
	Closed []Range
	// Open are the only ranges in which anything goes out. A window has closed or open ranges, not both.
	Open []Range
	// Dates are days that are closed from midnight to midnight.
	Dates []Date
}

// MaxRanges is how many ranges a window may have.
const MaxRanges = 16

// Validate returns everything that is wrong with the window.
func (w Window) Validate() error {
	var faults []error
	ranges := slices.Concat(w.Closed, w.Open)
	switch {
	case len(w.Closed) > 0 && len(w.Open) > 0:
		faults = append(faults, errors.New("has both closed and open ranges: keep only one kind"))
	case len(ranges) == 0 && len(w.Dates) == 0:
		faults = append(faults, errors.New("has no range: say when it is closed, or when it is open"))
	case len(ranges) > MaxRanges:
		faults = append(faults, fmt.Errorf("has %d ranges, may have at most %d", len(ranges), MaxRanges))
	}
	for _, r := range ranges {
		if r.From == r.To || r.From == minutesOfDay {
			faults = append(faults, fmt.Errorf("the range %s begins where it ends: 00:00-24:00 is a whole day", r))
		}
	}
	for _, date := range w.Dates {
		faults = append(faults, date.Validate())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if NeverOpen(w) {
		return errors.New("is never open: nothing could ever go out")
	}
	return nil
}

// ShortestOpen is the shortest stretch of a week without a switch in which the window is open; a week when it is always
// open.
func (w Window) ShortestOpen() time.Duration {
	closed, shortest, run := w.closedMinutes(), minutesOfWeek, 0
	begin := slices.Index(closed[:], true)
	if begin < 0 {
		return time.Duration(minutesOfWeek) * time.Minute
	}
	for i := range minutesOfWeek + 1 {
		switch isClosed := closed[(begin+i)%minutesOfWeek]; {
		case !isClosed:
			run++
		case run > 0:
			shortest, run = min(shortest, run), 0
		}
	}
	return time.Duration(shortest) * time.Minute
}

// NeverOpen reports whether there is no minute of a week without a switch in which all of the windows are open.
func NeverOpen(windows ...Window) bool {
	var closed [minutesOfWeek]bool
	for _, w := range windows {
		for i, one := range w.closedMinutes() {
			closed[i] = closed[i] || one
		}
	}
	return !slices.Contains(closed[:], false)
}

// ClosedAt reports whether the window is closed at a time of any of these days, in a week without a switch.
func (w Window) ClosedAt(clock Clock, days Days) bool {
	closed := w.closedMinutes()
	for day := range 7 {
		if days.Has(time.Weekday(day)) && closed[day*int(minutesOfDay)+int(clock)] {
			return true
		}
	}
	return false
}

// minutesOfWeek is how long a week without a switch is.
const minutesOfWeek = 7 * int(minutesOfDay)

// closedMinutes are the minutes of a week without a switch, from Sunday on, in which the window is closed.
func (w Window) closedMinutes() (closed [minutesOfWeek]bool) {
	for i := range closed {
		closed[i] = len(w.Open) > 0
	}
	for _, r := range slices.Concat(w.Closed, w.Open) {
		for day := range 7 {
			if !r.Days.Has(time.Weekday(day)) {
				continue
			}
			for minute := range r.minutes() {
				closed[(day*int(minutesOfDay)+int(r.From)+minute)%minutesOfWeek] = len(w.Open) == 0
			}
		}
	}
	return closed
}

// minutes is how long a range is on a day without a switch.
func (r Range) minutes() int {
	if r.To > r.From {
		return int(r.To - r.From)
	}
	return int(r.To + minutesOfDay - r.From)
}
