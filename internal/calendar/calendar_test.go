package calendar_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// On the days on which clocks are switched a night ends at the last moment at which the clock shows its end, and begins
// at the first at which it shows its beginning; what a switch skips is the first moment after it.
func TestTheDaysOfTheSwitches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, from, to, day, begins, ends string }{
		{zone: "Europe/Berlin", from: "02:30", to: "08:00", day: "2026-03-29", begins: "01:00", ends: "06:00"},
		{zone: "Europe/Berlin", from: "02:15", to: "02:45", day: "2026-10-25", begins: "00:15", ends: "01:45"},
		{zone: "America/New_York", from: "01:30", to: "02:30", day: "2026-03-08", begins: "06:30", ends: "07:00"},
		{zone: "America/New_York", from: "01:30", to: "03:00", day: "2026-11-01", begins: "05:30", ends: "08:00"},
		{zone: "Asia/Beirut", from: "00:00", to: "06:00", day: "2026-03-29", begins: "-02:00", ends: "03:00"},
		{zone: "America/Havana", from: "00:15", to: "00:45", day: "2026-11-01", begins: "04:15", ends: "05:45"},
		{zone: "Australia/Lord_Howe", from: "01:40", to: "03:00", day: "2026-04-05", begins: "-09:20", ends: "-07:30"},
		{zone: "Antarctica/Troll", from: "01:30", to: "02:30", day: "2026-10-25", begins: "-00:30", ends: "02:30"},
		{zone: "Asia/Kathmandu", from: "22:00", to: "24:00", day: "2026-06-01", begins: "16:15", ends: "18:15"},
	} {
		t.Run(c.zone+" "+c.day+" "+c.from, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			day, err := time.Parse(time.DateOnly, c.day)
			if err != nil {
				t.Fatal(err)
			}
			window := calendar.Window{Closed: []calendar.Range{{
				Days: calendar.On(day.Weekday()), From: clock(t, c.from), To: clock(t, c.to),
			}}}
			closed, _ := window.Next(throttle.MicrosOf(day.AddDate(0, 0, -1)), zone)
			want := throttle.Interval{From: sinceMidnight(t, day, c.begins), Until: sinceMidnight(t, day, c.ends)}
			if closed[0] != want {
				t.Errorf("it is closed from %s to %s, want %s to %s",
					closed[0].From.Time().UTC(), closed[0].Until.Time().UTC(),
					want.From.Time().UTC(), want.Until.Time().UTC())
			}
		})
	}
}

// sinceMidnight reads a time in UTC; with a minus sign it is before midnight of that day.
func sinceMidnight(t *testing.T, day time.Time, text string) throttle.Micros {
	t.Helper()
	sign := time.Duration(1)
	if text[0] == '-' {
		sign, text = -1, text[1:]
	}
	return throttle.MicrosOf(day.Add(sign * time.Duration(clock(t, text)) * time.Minute))
}
