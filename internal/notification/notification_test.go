package notification_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
)

func TestPriorityNames(t *testing.T) {
	t.Parallel()
	names := map[notification.Priority]string{
		notification.PriorityCritical: "critical", notification.PriorityHigh: "high",
		notification.PriorityNormal: "normal", notification.PriorityLow: "low",
	}
	for p, name := range names {
		if p.String() != name {
			t.Errorf("priority %d is called %q, want %q", p, p, name)
		}
		if parsed, ok := notification.ParsePriority(name); !ok || parsed != p {
			t.Errorf("%q is read as priority %d (known: %t), want %d", name, parsed, ok, p)
		}
	}
	for _, p := range []notification.Priority{0, notification.PriorityLow + 1, 255} {
		if p.String() != "invalid" {
			t.Errorf("priority %d, which does not exist, is called %q", uint8(p), p)
		}
	}
	for _, name := range []string{"", "invalid", "urgent", "Normal", " low"} {
		if parsed, ok := notification.ParsePriority(name); ok || parsed != 0 {
			t.Errorf("%q is read as priority %d (known: %t), want none", name, parsed, ok)
		}
	}
}

func TestPrioritiesGoFromUrgentToPatient(t *testing.T) {
	t.Parallel()
	order := []notification.Priority{
		notification.PriorityCritical, notification.PriorityHigh, notification.PriorityNormal, notification.PriorityLow,
	}
	for i, p := range order {
		if p == 0 {
			t.Errorf("%s is the zero value, so that a forgotten priority would look like it", p)
		}
		if i > 0 && order[i-1] >= p {
			t.Errorf("%s does not go before %s", order[i-1], p)
		}
	}
}
