package calendar_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// begin says when the days of two years begin, going through every quarter of an hour: when a clock
// shows a day's date for the first time.
func begin(from time.Time, zone *time.Location) []time.Time {
	begins := map[time.Time]time.Time{} // by date
	for at := from; at.Before(from.AddDate(2, 0, 0)); at = at.Add(15 * time.Minute) {
		local := at.In(zone)
		date := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
		if _, known := begins[date]; !known {
			begins[date] = at
		}
	}
	var days []time.Time
	for _, at := range begins {
		days = append(days, at)
	}
	slices.SortFunc(days, time.Time.Compare)
	return days[1:] // the first of them was under way
}

// Days, weeks and months begin where one who goes through all hours finds them, also where a clock shows midnight
// twice or never, and where a day is left out.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]int{
		"Europe/Berlin": 2026, "Asia/Kathmandu": 2026, "Australia/Lord_Howe": 2026, "America/St_Johns": 2026,
		"America/Havana": 2026, "America/Sao_Paulo": 2017, "Pacific/Apia": 2011, "UTC": 2026,
		"America/Goose_Bay": 2009, // at 00:01 back to 23:01
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := calendar.ParseZone(name)
			if err != nil {
				t.Fatal(err)
			}
			days := begin(time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC), zone)
			for period, begins := range map[throttle.Period]func(time.Time) bool{
				throttle.Day:   func(time.Time) bool { return true },
				throttle.Week:  func(day time.Time) bool { return day.Weekday() == time.Monday },
				throttle.Month: func(day time.Time) bool { return day.Day() == 1 },
			} {
				var want []throttle.Micros
				for _, day := range days {
					if begins(day.In(zone)) {
						want = append(want, throttle.MicrosOf(day))
					}
				}
				got := calendar.Bounds(period, want[0], zone, len(want)-1)
				if !slices.Equal(got, want) {
					t.Errorf("%s begins at %v, want %v", period, got, want)
				}
				for i, at := range want[1:] {
					if before := calendar.Bounds(period, at-1, zone, 1); !slices.Equal(before, want[i:i+2]) {
						t.Errorf("a µs before %s is in %s to %s", at.Time(), before[0].Time(), before[1].Time())
					}
				}
			}
		})
	}
}
