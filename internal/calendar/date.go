package calendar

import (
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Date is a day of the calendar.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// ParseDate reads a date such as 2026-12-24.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Date{}, fmt.Errorf("%q is not a date: write one that exists, such as 2026-12-24", text)
	}
	return dateOf(t), nil
}

// dateOf is the date that a clock shows.
func dateOf(t time.Time) Date {
	year, month, day := t.Date()
	return Date{year, month, day}
}

// String writes 2026-12-24.
func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// Validate refuses dates that do not exist.
func (d Date) Validate() error {
	if dateOf(d.utc(0)) != d {
		return fmt.Errorf("the date %s does not exist", d)
	}
	return nil
}

// plus is the date so many days later.
func (d Date) plus(days int) Date { return dateOf(Date{d.Year, d.Month, d.Day + days}.utc(0)) }

// weekday is the date's day of the week.
func (d Date) weekday() time.Weekday { return d.utc(0).Weekday() }

// utc is the moment at which the clock in Greenwich shows a time of this day.
func (d Date) utc(c Clock) time.Time {
	return time.Date(d.Year, d.Month, d.Day, 0, int(c), 0, 0, time.UTC)
}

// readings are the first and the last moment at which a zone's clock shows a time of a day. They differ when a switch
// sets the clock back over that time. When a switch skips it, both are the moment of the switch.
//
// [time.Date] does not promise which of two moments it returns, and invents one where there is none. So this walks over
// the stretches of constant offset around that time: no offset is more than 15 hours, and no switch in the tz database
// moves a clock by more than a day.
func (d Date) readings(c Clock, zone *time.Location) (first, last throttle.Micros) {
	wall, found := d.utc(c), false
	for at := wall.Add(-farthestOffset); ; {
		_, end := at.In(zone).ZoneBounds()
		moment := wall.Add(-offset(at, zone))
		switch {
		case moment.Before(at):
			// The clock is past that time when this stretch begins: the switch before it skipped the time, or it was
			// shown in the stretch before.
			if !found {
				first, last = throttle.MicrosOf(at), throttle.MicrosOf(at)
			}
			found = true
		case end.IsZero() || moment.Before(end):
			if last = throttle.MicrosOf(moment); !found {
				first = last
			}
			found = true
		}
		if end.IsZero() || end.Sub(wall) > farthestOffset {
			return first, last
		}
		at = end
	}
}

// farthestOffset is more than any clock was ever ahead of or behind Greenwich, with a switch in between.
const farthestOffset = 40 * time.Hour

// offset is how far a zone's clock is ahead of Greenwich at a moment.
func offset(at time.Time, zone *time.Location) time.Duration {
	_, seconds := at.In(zone).Zone()
	return time.Duration(seconds) * time.Second
}
