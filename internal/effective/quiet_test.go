package effective_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// quietNow is a policy whose quiet hours have begun an hour ago in Kathmandu, with a category for each thing that may
// become of what comes in them.
func quietNow(t *testing.T) string {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(zone)
	return fmt.Sprintf(`
version: 1
time_zone: Asia/Kathmandu
windows: {night: {closed: [{from: %q, to: %q}]}}
quiet_hours: {window: night, exempt_priority: high}
categories:
  default: {}
  offers: {quiet_hours: {then: drop}}
  news: {quiet_hours: {then: passive}}
  pages: {quiet_hours: {then: off}}
  security: {bypass: true, quiet_hours: {then: passive}}
`, now.Add(-time.Hour).Format("15:04"), now.Add(3*time.Hour).Format("15:04"))
}

func TestQuietHoursOfEachCategory(t *testing.T) {
	t.Parallel()
	p, now := fixed(t, quietNow(t)), time.Now()
	for category, c := range map[string]struct{ closed, drops, passive bool }{
		"default":  {closed: true},
		"offers":   {closed: true, drops: true},
		"news":     {passive: true},
		"pages":    {},
		"security": {},
		"unknown":  {closed: true},
	} {
		t.Run(category, func(t *testing.T) {
			t.Parallel()
			s := p.Settings("ada", category)
			if closed := len(s.Plan.Closed) > 0; closed != c.closed || s.Drops != c.drops {
				t.Errorf("the settings are %+v", s)
			}
			if c.closed && s.Zone.String() != "Asia/Kathmandu" {
				t.Errorf("the zone is %s", s.Zone)
			}
			n := &notification.Notification{UserID: "ada", Category: category, Priority: notification.PriorityNormal}
			if got := p.Passive(n, now); got != c.passive {
				t.Errorf("passive: %t", got)
			}
			if p.Passive(n, now.Add(5*time.Hour)) {
				t.Error("passive by day")
			}
			if n.Priority = notification.PriorityHigh; p.Passive(n, now) {
				t.Error("passive although it is exempt")
			}
		})
	}
}

// The spread keeps those apart who begin again. What is dropped or goes passively does not wait: for it, quiet hours
// are over when the window opens.
func TestTheSpreadIsForWhatIsHeld(t *testing.T) {
	t.Parallel()
	p, now := fixed(t, quietNow(t)), time.Now()
	window := p.Current().Windows["night"]
	night, _ := window.Next(throttle.MicrosOf(now), p.Settings("ada", "default").Zone)
	over := night[0].Until
	spread := 0
	for i := range 20 {
		user := fmt.Sprintf("user%d", i)
		opens := func(category string) throttle.Micros {
			return p.Settings(user, category).Plan.For(user).Closed.Open(throttle.MicrosOf(now))
		}
		if opens("default") > over {
			spread++
		}
		if opens("offers") != over {
			t.Errorf("what is dropped for %s is dropped until %s, want %s", user, opens("offers").Time(), over.Time())
		}
		n := &notification.Notification{UserID: user, Category: "news", Priority: notification.PriorityNormal}
		if !p.Passive(n, over.Time().Add(-time.Second)) || p.Passive(n, over.Time()) {
			t.Errorf("for %s what is passive is not so until %s", user, over.Time())
		}
		for _, category := range []string{"default", "offers"} {
			past := p.HoursAt(user, category, "", throttle.MicrosOf(now))
			if want := category == "default"; past.Spread > 0 != want {
				t.Errorf("in the past, the spread of %s is %s", category, past.Spread)
			}
		}
	}
	if spread < 15 {
		t.Errorf("%d of 20 users begin again later than the others", spread)
	}
}

func TestNothingIsPassiveWithoutQuietHours(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{UserID: "ada", Category: "chat", Priority: notification.PriorityLow}
	if fixed(t, rulesText).Passive(n, time.Now()) {
		t.Error("it is passive")
	}
}
