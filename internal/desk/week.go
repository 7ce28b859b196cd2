package desk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// weekDays is how many days a [Week] has.
const weekDays = 7

// Week says when a user is not to be disturbed, today and on the six days after it.
type Week struct {
	Zone string `json:"zone" doc:"The time zone whose days these are."`
	// Categories are those that wait in these hours. What bypasses the limits does not.
	Categories []string  `json:"categories" nullable:"false" doc:"The categories that the hours hold for."`
	Days       []WeekDay `json:"days" nullable:"false"`
	// KnownUntil is set where a window has more ranges than are worked out ahead.
	KnownUntil *time.Time `json:"known_until,omitempty" doc:"What is later is not known yet; absent when all seven days are."`
}

// WeekDay is one day of a [Week]. The days on which the clocks change have 23 or 25 hours.
type WeekDay struct {
	Date   string    `json:"date" doc:"In the user's time zone."`
	Begins time.Time `json:"begins"`
	Ends   time.Time `json:"ends"`
	// Noon is when the clock shows 12:00, from which the hours of the day can be told apart.
	Noon  time.Time `json:"noon" doc:"When the clock shows 12:00."`
	Quiet []Span    `json:"quiet" nullable:"false" doc:"When nothing goes out, from now on."`
}

// Span is a stretch of time.
type Span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// week says when the user is not to be disturbed; nil when there is no such time.
func (s *situation) week(categories []UserCategory) *Week {
	var held []string
	var closed throttle.Closed
	var zone *time.Location
	for _, c := range categories {
		settings := s.policy.Settings(s.userID, c.Category)
		own := settings.Plan.For(s.userID).Closed
		if len(closed) == 0 {
			closed, zone = own, settings.Zone
		}
		if len(own) > 0 && slices.Equal(own, closed) {
			held = append(held, c.Category)
		}
	}
	if held == nil {
		return nil
	}
	week := weekOf(closed, s.now, zone)
	week.Categories = held
	return week
}

// weekOf makes the week that begins today in a zone; nil stands for UTC.
func weekOf(closed throttle.Closed, at time.Time, zone *time.Location) *Week {
	if zone == nil {
		zone = time.UTC
	}
	w, now := &Week{Zone: zone.String(), Categories: []string{}}, throttle.MicrosOf(at)
	days := calendar.Bounds(throttle.Day, now, zone, weekDays)
	for i, begins := range days[:weekDays] {
		ends := days[i+1]
		local := begins.Time().In(zone)
		day := WeekDay{
			Date: local.Format(time.DateOnly), Begins: utc(begins.Time()), Ends: utc(ends.Time()), Quiet: []Span{},
			Noon: utc(time.Date(local.Year(), local.Month(), local.Day(), 12, 0, 0, 0, zone)),
		}
		for _, interval := range closed {
			if from, until := max(interval.From, begins, now), min(interval.Until, ends); from < until {
				day.Quiet = append(day.Quiet, Span{From: utc(from.Time()), Until: utc(until.Time())})
			}
		}
		w.Days = append(w.Days, day)
	}
	if last := closed[len(closed)-1].Until; len(closed) == throttle.MaxClosed && last < days[weekDays] {
		w.KnownUntil = optional(last.Time())
	}
	return w
}

// In writes a moment by the clock of the week's zone, in a layout of package time.
func (w *Week) In(at time.Time, layout string) string {
	zone, _ := time.LoadLocation(w.Zone) // one that the policy names is known
	return at.In(cmp.Or(zone, time.UTC)).Format(layout)
}

// Longest is how long the longest day is.
func (w *Week) Longest() (longest time.Duration) {
	for _, d := range w.Days {
		longest = max(longest, d.Ends.Sub(d.Begins))
	}
	return longest
}

// Words say when it is quiet, a stretch over midnight as one, and where the clocks change.
func (w *Week) Words() []string {
	var words, switches []string
	var quiet []Span
	for _, d := range w.Days {
		for _, span := range d.Quiet {
			if n := len(quiet); n > 0 && quiet[n-1].Until.Equal(span.From) {
				quiet[n-1].Until = span.Until
			} else {
				quiet = append(quiet, span)
			}
		}
		if hours := d.Ends.Sub(d.Begins).Hours(); hours != 24 {
			day := w.In(d.Noon, "Mon 2 Jan")
			switches = append(switches, fmt.Sprintf("%s has %g h, because the clocks change", day, hours))
		}
	}
	for _, span := range quiet {
		words = append(words, w.In(span.From, "Mon 2 Jan 15:04")+" to "+w.In(span.Until, "Mon 15:04"))
	}
	return append(words, switches...)
}

// Marks are the moments of a day at which its clock shows 06, 12 and 18, unless the clocks change between.
func (d WeekDay) Marks() []time.Time {
	return []time.Time{d.Noon.Add(-6 * time.Hour), d.Noon, d.Noon.Add(6 * time.Hour)}
}
