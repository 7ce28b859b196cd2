package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
)

// Whatever is changed of a limit or a cap is told, with what it was.
func TestADifferenceTellsWhatAChangedRuleSays(t *testing.T) {
	t.Parallel()
	const before = "version: 1\ncategories: {default: {limits: [{max: 2, per: day}, {max: 9, per: 1m}]}}\n" +
		"user_cap: {limits: [{max: 5, per: week}]}\n" +
		"caps: [{name: ads, categories: [default], limits: [{max: 3, per: 7d}, {max: 8, per: month}]}]\n"
	const told = "limit 2/day, limit 9/1m, user_cap 5/week, cap:ads 3/168h, cap:ads 8/month, max_defer 48h"
	for name, change := range map[string]struct{ old, replacement, want string }{
		"a limit by day":            {"max: 2", "max: 4", strings.Replace(told, "2/day", "4/day", 1)},
		"a limit by another period": {"per: day", "per: week", strings.Replace(told, "2/day", "2/week", 1)},
		"the user cap":              {"max: 5", "max: 6", strings.Replace(told, "5/week", "6/week", 1)},
		"a named cap":               {"max: 3", "max: 4", strings.Replace(told, "3/168h", "4/168h", 1)},
		"a window of a named cap":   {"per: 7d", "per: 2d", strings.Replace(told, "3/168h", "3/48h", 1)},
		"a named cap by month":      {"max: 8", "max: 7", strings.Replace(told, "8/month", "7/month", 1)},
		"the channels of a cap": {
			"categories: [default],", "categories: [default], channels: [fcm, apns],",
			strings.NewReplacer("3/168h", "3/168h on apns fcm", "8/month", "8/month on apns fcm").Replace(told),
		},
		"a reserve": {
			"{max: 9, per: 1m}", "{max: 9, per: 1m, reserve: {critical: 1, high: 2}}",
			strings.Replace(told, "9/1m", "9/1m with reserve critical 1 high 2", 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, err := policy.Parse("before", []byte(before))
			if err != nil {
				t.Fatal(err)
			}
			other, err := policy.Parse("after", []byte(strings.Replace(before, change.old, change.replacement, 1)))
			if err != nil {
				t.Fatal(err)
			}
			want := []policy.Difference{{Category: "default", Before: told, After: change.want}}
			if diff := cmp.Diff(want, old.Differences(other)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever is changed of the quiet hours and windows is told, also of a window that only users' own hours name.
func TestADifferenceTellsOfQuietHours(t *testing.T) {
	t.Parallel()
	const hours = "time zone UTC, quiet hours in window night, spread 10m, exempt from critical"
	before := atEnd(`windows:`, `  night: {closed: [{from: "22:00", to: "08:00"}]}`,
		`  lunch: {closed: [{from: "12:00", to: "13:00"}]}`, `quiet_hours: {window: night}`)
	for name, change := range map[string]struct {
		old, replacement string
		want             policy.Difference
	}{
		"required": {
			"window: night}", "window: night, required: true}",
			policy.Difference{Before: hours, After: strings.Replace(hours, "10m", "10m, beside users' own", 1)},
		},
		"the hours": {
			"08:00", "07:00",
			policy.Difference{Before: "the hours of window night", After: "other hours of window night"},
		},
		"the hours of another window": {
			"13:00", "14:00",
			policy.Difference{Before: "the hours of window lunch", After: "other hours of window lunch"},
		},
		"a window less": {
			`  lunch: {closed: [{from: "12:00", to: "13:00"}]}` + "\n", "",
			policy.Difference{Before: "window lunch"},
		},
		"a window more": {
			"windows:", "windows:\n" + `  break: {open: [{from: "12:00", to: "13:00"}]}`,
			policy.Difference{After: "window break"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old, err := policy.Parse("before", []byte(before))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(before, change.old, change.replacement, 1)
			other, err := policy.Parse("after", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]policy.Difference{change.want}, old.Differences(other)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
