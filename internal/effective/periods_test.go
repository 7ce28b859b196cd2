package effective_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Rules of the calendar learn when the periods begin in the time zone, and other plans carry nothing.
func TestPlansKnowWhenTheirPeriodsBegin(t *testing.T) {
	t.Parallel()
	p := fixed(t, `
version: 1
time_zone: America/St_Johns
categories:
  default: {limits: [{max: 3, per: day}, {max: 9, per: month}]}
  chat: {limits: [{max: 1, per: 3s}]}
user_cap: {limits: [{max: 60, per: 1h}]}
`)
	plan := p.Settings("ada", "default").Plan
	zone, err := time.LoadLocation("America/St_Johns")
	if err != nil {
		t.Fatal(err)
	}
	now, days := throttle.MicrosOf(time.Now()), plan.Boundaries[throttle.Day-1]
	if len(days) < 8 || days[0] > now || days[2] < now || plan.Boundaries[throttle.Week-1] != nil {
		t.Fatalf("boundaries %v at %d", plan.Boundaries, now)
	}
	for _, at := range days {
		if clock := at.Time().In(zone).Format("15:04:05"); clock != "00:00:00" {
			t.Errorf("a day begins at %s", clock)
		}
	}
	if months := plan.Boundaries[throttle.Month-1]; months[1].Time().In(zone).Day() != 1 {
		t.Errorf("months begin at %v", months)
	}
	if chat := p.Settings("ada", "chat").Plan; !chat.Boundaries.Equal(throttle.Boundaries{}) {
		t.Errorf("a plan without periods has %v", chat.Boundaries)
	}
	if got, want := p.LongestWindow("ada"), throttle.Month.Longest(); got != want {
		t.Errorf("the longest window is %s, want %s", got, want)
	}
}

// A user's periods begin by the user's own clock, so the user needs settings of their own.
func TestPeriodsBeginInTheUsersZone(t *testing.T) {
	t.Parallel()
	p := fixed(t, "version: 1\ncategories:\n  default: {limits: [{max: 3, per: day}]}\n")
	p.Own = wants(t, "ada", notification.Preferences{TimeZone: "Asia/Kathmandu"})
	if !p.Personal("ada") || p.Personal("ben") {
		t.Error("ada has a zone of her own, ben has not")
	}
	for user, want := range map[string]string{"ada": "18:15:00", "ben": "00:00:00"} {
		days := p.Settings(user, "default").Plan.Boundaries[throttle.Day-1]
		if got := days[1].Time().UTC().Format(time.TimeOnly); got != want {
			t.Errorf("a day of %s begins at %s UTC, want %s", user, got, want)
		}
	}
}
