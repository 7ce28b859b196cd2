package invariant_test

import (
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
