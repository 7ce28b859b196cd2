package calendar_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
)

func TestAWeekAsItIs(t *testing.T) {
	t.Parallel()
	at := func(text string) calendar.Clock {
		c, err := calendar.ParseClock(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	date := func(text string) calendar.Date {
		d, err := calendar.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, c := range map[string]struct {
		window  calendar.Window
		days    map[time.Weekday]string
		longest time.Duration
	}{
		"nights": {
			window: calendar.Window{Closed: []calendar.Range{{From: at("22:00"), To: at("08:00")}}},
			days:   map[time.Weekday]string{time.Monday: "00:00-08:00 22:00-24:00"}, longest: 10 * time.Hour,
		},
		"nights and a day": {
			window: calendar.Window{
				Closed: []calendar.Range{{From: at("22:00"), To: at("08:00")}},
				Dates:  []calendar.Date{date("2026-12-25")},
			},
			days: map[time.Weekday]string{time.Friday: "00:00-08:00 22:00-24:00"}, longest: 34 * time.Hour,
		},
		"two days": {
			window:  calendar.Window{Dates: []calendar.Date{date("2026-12-26"), date("2026-12-25")}},
			days:    map[time.Weekday]string{time.Friday: ""},
			longest: 48 * time.Hour,
		},
		"office hours": {
			window: calendar.Window{Open: []calendar.Range{{
				Days: calendar.On(time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday),
				From: at("09:00"), To: at("17:00"),
			}}},
			days: map[time.Weekday]string{
				time.Monday: "00:00-09:00 17:00-24:00", time.Saturday: "00:00-24:00", time.Sunday: "00:00-24:00",
			},
			longest: 64 * time.Hour,
		},
		"a night that begins on one day": {
			window: calendar.Window{Closed: []calendar.Range{
				{Days: calendar.On(time.Saturday), From: at("22:00"), To: at("06:30")},
			}},
			days: map[time.Weekday]string{
				time.Saturday: "22:00-24:00", time.Sunday: "00:00-06:30", time.Monday: "",
			},
			longest: 8*time.Hour + 30*time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for day, want := range c.days {
				got := strings.Trim(fmt.Sprint(c.window.ClosedOn(day)), "[]")
				if got != want {
					t.Errorf("on %s it is closed %q, want %q", day, got, want)
				}
			}
			if got := c.window.LongestClosed(); got != c.longest {
				t.Errorf("at most it is closed for %s, want %s", got, c.longest)
			}
		})
	}
}
