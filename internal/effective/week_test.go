package effective_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Through the week of a switch, the hours in effect are those that the clock shows, whenever they are asked for: the
// intervals that are kept never run out and never lag behind.
func TestHoursInEffectThroughASwitch(t *testing.T) {
	t.Parallel()
	for zone, day := range map[string]string{
		"Europe/Berlin": "2026-10-25", "Asia/Beirut": "2026-03-29", "America/Havana": "2026-11-01",
		"Australia/Lord_Howe": "2026-10-04", "Antarctica/Troll": "2026-03-29", "Africa/Casablanca": "2026-02-15",
		"Asia/Kathmandu": "2026-06-01", "Pacific/Apia": "2011-12-30",
	} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			begin, err := time.Parse(time.DateOnly, day)
			if err != nil {
				t.Fatal(err)
			}
			location, err := time.LoadLocation(zone)
			if err != nil {
				t.Fatal(err)
			}
			p := fixed(t, strings.Replace(nightText, "Europe/Berlin", zone, 1))
			synctest.Test(t, func(t *testing.T) {
				sleepUntil(begin.AddDate(0, 0, -3))
				for time.Now().Before(begin.AddDate(0, 0, 4)) {
					now := throttle.MicrosOf(time.Now())
					plan := p.Settings("ada", "default").Plan
					hour := time.Now().In(location).Hour()
					if closed := plan.Closed.Open(now) > now; closed != (hour >= 22 || hour < 8) {
						t.Fatalf("at %s it is closed: %t", time.Now().In(location), closed)
					}
					if last := len(plan.Closed) - 1; plan.Closed[last].Until < now.Add(5*24*time.Hour) {
						t.Fatalf("at %s the nights are known until %s only", time.Now().In(location),
							plan.Closed[last].Until.Time())
					}
					sleepUntil(time.Now().Add(7*time.Minute + 13*time.Second))
				}
			})
		})
	}
}

// sleepUntil moves the clock of a bubble.
func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) } //nolint:forbidigo // a bubble's clock costs nothing
