package invariant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// periodOf returns the period that an admission was in by the zone that the store has for it.
func periodOf(t *testing.T) func(invariant.Admission, throttle.Period) throttle.Interval {
	t.Helper()
	return func(m invariant.Admission, p throttle.Period) throttle.Interval {
		zone, err := calendar.ParseZone(m.Zone)
		if err != nil {
			t.Error(err)
			return throttle.Interval{}
		}
		bounds := calendar.Bounds(p, m.At, zone, 1)
		return throttle.Interval{From: bounds[0], Until: bounds[1]}
	}
}

// twoPer is a rule of the calendar.
func twoPer(p throttle.Period, kind throttle.Kind) throttle.Rule {
	return throttle.Rule{Max: 2, Per: p.Longest(), Period: p, Kind: kind}
}

// The checker finds what a limit by day, week or month did not allow, on the calendar of the zone in force then: not
// what a window of 24 hours would, which is wrong on the days of a switch.
func TestCalendarLimits(t *testing.T) {
	t.Parallel()
	const berlin, havana, kathmandu = "Europe/Berlin", "America/Havana", "Asia/Kathmandu"
	const day, week, month = throttle.Day, throttle.Week, throttle.Month
	for name, c := range map[string]struct {
		zone   string
		period throttle.Period
		last   string // beside two on the first
		first  string
		want   int64
	}{
		"the same day": {
			zone: berlin, period: day,
			first: "2026-10-20T00:00:00+02:00", last: "2026-10-20T23:59:59.999999+02:00", want: 1,
		},
		"the next day": {
			zone: berlin, period: day, first: "2026-10-20T23:59:59.999999+02:00", last: "2026-10-21T00:00:00+02:00",
		},
		"the same day of 25 hours": {
			zone: berlin, period: day, first: "2026-10-25T00:00:00+02:00", last: "2026-10-25T23:59:59+01:00", want: 1,
		},
		"the day after one of 23 hours": {
			zone: berlin, period: day, first: "2026-03-29T00:30:00+01:00", last: "2026-03-30T00:00:00+02:00",
		},
		"the first of two midnights": {
			zone: havana, period: day, first: "2026-10-31T12:00:00-04:00", last: "2026-11-01T00:30:00-04:00", want: 1,
		},
		"the second of two midnights": {
			zone: havana, period: day, first: "2026-11-01T00:30:00-04:00", last: "2026-11-01T00:00:00-05:00",
		},
		"the same day of the user": {
			zone: kathmandu, period: day, first: "2026-10-20T18:15:00Z", last: "2026-10-21T18:14:59Z", want: 1,
		},
		"the same day of UTC, another of the user": {
			zone: kathmandu, period: day, first: "2026-10-20T18:14:59Z", last: "2026-10-20T18:15:00Z",
		},
		"Sunday of the week": {
			zone: berlin, period: week, first: "2026-10-19T00:00:00+02:00", last: "2026-10-25T23:59:59+01:00", want: 1,
		},
		"Monday": {
			zone: berlin, period: week, first: "2026-10-25T23:59:59+01:00", last: "2026-10-26T00:00:00+01:00",
		},
		"the end of the month": {
			zone: berlin, period: month, first: "2026-10-01T00:00:00+02:00", last: "2026-10-31T23:59:59+01:00", want: 1,
		},
		"the month after": {
			zone: berlin, period: month, first: "2026-10-31T23:59:59+01:00", last: "2026-11-01T00:00:00+01:00",
		},
	} {
		for kind, rule := range map[string]throttle.Rule{
			"calendar": twoPer(c.period, throttle.KindLimit),
			"user_cap": twoPer(c.period, throttle.KindCap),
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				source := &store{}
				for i, at := range []string{c.first, c.first, c.last} {
					moment, err := time.Parse(time.RFC3339Nano, at)
					if err != nil {
						t.Fatal(err)
					}
					source.admissions = append(source.admissions, invariant.Admission{
						ID: string(rune('a' + i)), UserID: "ada", Category: "chat", At: throttle.MicrosOf(moment),
						Priority: notification.PriorityNormal, Zone: c.zone,
					})
				}
				result, log := round(t, source, func(cfg *invariant.Config) {
					cfg.Now = func() time.Time { return source.admissions[0].At.Time().Add(-time.Hour) }
					cfg.Behind = time.Since(source.admissions[2].At.Time().Add(time.Hour))
					cfg.Period = periodOf(t)
				}, limitsOf(throttle.Rolling, rule))
				if result.Violations != c.want || strings.Count(log, kind) != int(c.want) {
					t.Errorf("%d violations, want %d: %s", result.Violations, c.want, log)
				}
			})
		}
	}
}

// Two at one moment, in zones where it is of different days, are allowed in the one order that keeps both days' limits;
// with one more there is no such order.
func TestOneMomentOfTwoDays(t *testing.T) {
	t.Parallel()
	moment := time.Date(2026, 10, 20, 18, 15, 0, 0, time.UTC) // midnight in Kathmandu, the same day as before in Havana
	admission := func(id, zone string, at time.Time) invariant.Admission {
		return invariant.Admission{
			ID: id, UserID: "ada", Category: "chat", At: throttle.MicrosOf(at), Zone: zone,
			Priority: notification.PriorityNormal,
		}
	}
	source := &store{admissions: []invariant.Admission{
		admission("a", "America/Havana", moment.Add(-time.Minute)),
		admission("b", "Asia/Kathmandu", moment), // the checker has it before c, which leaves c no room
		admission("c", "America/Havana", moment),
	}}
	check := func() (violations int64, log string) {
		result, log := round(t, source, func(cfg *invariant.Config) {
			cfg.Now = func() time.Time { return moment.Add(-time.Hour) }
			cfg.Behind = time.Since(moment.Add(time.Hour))
			cfg.Period = periodOf(t)
		}, limitsOf(throttle.Rolling, twoPer(throttle.Day, throttle.KindLimit)))
		return result.Violations, log
	}
	if violations, log := check(); violations != 0 {
		t.Errorf("%d violations, though c may have been before b: %s", violations, log)
	}
	source.admissions = append(source.admissions, admission("d", "America/Havana", moment))
	if violations, log := check(); violations != 1 {
		t.Errorf("%d violations, want 1: with d there is one too many in Havana: %s", violations, log)
	}
}
