package effective_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
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

func TestNothingIsPassiveWithoutQuietHours(t *testing.T) {
	t.Parallel()
	n := &notification.Notification{UserID: "ada", Category: "chat", Priority: notification.PriorityLow}
	if fixed(t, rulesText).Passive(n, time.Now()) {
		t.Error("it is passive")
	}
}
