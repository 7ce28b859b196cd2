package desk_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// A user's week has the days of the user's zone, with 23 or 25 hours where the clocks change, and each stretch of quiet
// on its day.
func TestAWeek(t *testing.T) {
	t.Parallel()
	night := calendar.Window{Closed: []calendar.Range{{From: 22 * 60, To: 8 * 60}}}
	for name, c := range map[string]struct {
		zone, now string
		hours     []float64 // of each day
		quiet     []float64 // hours of quiet of each day, from now on
	}{
		"an ordinary week": {
			zone: "Europe/Vienna", now: "2026-11-22T18:00:00+01:00", hours: []float64{24, 24, 24, 24, 24, 24, 24},
			quiet: []float64{2, 10, 10, 10, 10, 10, 10},
		},
		"in the night": {
			zone: "Europe/Vienna", now: "2026-11-22T03:00:00+01:00", hours: []float64{24, 24, 24, 24, 24, 24, 24},
			quiet: []float64{7, 10, 10, 10, 10, 10, 10},
		},
		"the clocks go back": {
			zone: "Europe/Vienna", now: "2026-10-23T12:00:00+02:00", hours: []float64{24, 24, 25, 24, 24, 24, 24},
			quiet: []float64{2, 10, 11, 10, 10, 10, 10},
		},
		"the clocks go forward": {
			zone: "America/New_York", now: "2026-03-07T12:00:00-05:00", hours: []float64{24, 23, 24, 24, 24, 24, 24},
			quiet: []float64{2, 9, 10, 10, 10, 10, 10},
		},
		"at midnight": { // there is no midnight on that day
			zone: "Asia/Beirut", now: "2026-03-28T12:00:00+02:00", hours: []float64{24, 23, 24, 24, 24, 24, 24},
			quiet: []float64{2, 9, 10, 10, 10, 10, 10},
		},
		"half an hour": {
			zone: "Australia/Lord_Howe", now: "2026-04-04T12:00:00+11:00", hours: []float64{24, 24.5, 24, 24, 24, 24, 24},
			quiet: []float64{2, 10.5, 10, 10, 10, 10, 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := calendar.ParseZone(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, c.now)
			if err != nil {
				t.Fatal(err)
			}
			closed, _ := night.Next(throttle.MicrosOf(now.Add(-time.Hour)), zone)
			week := desk.WeekOf(closed, now, zone)
			var hours, quiet []float64
			for i, day := range week.Days {
				hours, quiet = append(hours, day.Ends.Sub(day.Begins).Hours()), append(quiet, 0)
				for _, span := range day.Quiet {
					quiet[i] += span.Until.Sub(span.From).Hours()
				}
				if want := now.In(zone).AddDate(0, 0, i).Format(time.DateOnly); day.Date != want {
					t.Errorf("day %d is %s, want %s", i, day.Date, want)
				}
				if clock := day.Noon.In(zone).Format("2006-01-02 15:04"); clock != day.Date+" 12:00" {
					t.Errorf("noon is %s", clock)
				}
			}
			if !slices.Equal(hours, c.hours) || !slices.Equal(quiet, c.quiet) || week.Zone != c.zone {
				t.Errorf("%s has days of %v hours, of which quiet %v", week.Zone, hours, quiet)
			}
			if week.KnownUntil != nil {
				t.Errorf("it is known until %s only", week.KnownUntil)
			}
		})
	}
}
