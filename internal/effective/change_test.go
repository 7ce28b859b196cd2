package effective_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// alwaysQuiet has quiet hours that hold now, whenever the test runs: but for one minute in twelve hours.
func alwaysQuiet(now time.Time) string {
	open := now.UTC().Add(12 * time.Hour)
	return "version: 1\nwindows: {night: {closed: [{from: \"" + open.Add(time.Minute).Format("15:04") + "\", to: \"" +
		open.Format("15:04") + "\"}]}}\nquiet_hours: {window: night, spread: 10s}\ncategories:\n  default: {max_defer: 48h}\n"
}

func TestReplacedTellsWhatChanges(t *testing.T) {
	t.Parallel()
	const plain = "version: 1\ncategories:\n  default: {max_defer: 48h}\n"
	for name, c := range map[string]struct {
		before, after string
		sameLimits    bool
		over          time.Duration
	}{
		"OnlyAComment":     {before: plain, after: plain + "# none\n", sameLimits: true},
		"OnlyRetries":      {before: plain, after: plain + "retry: {max_attempts: 3}\n", sameLimits: true},
		"Limits":           {before: plain, after: "version: 1\ncategories:\n  default: {min_gap: 3s}\n"},
		"QuietHoursEnd":    {before: alwaysQuiet(time.Now()), after: plain, over: 10 * time.Second},
		"QuietHoursBegin":  {before: plain, after: alwaysQuiet(time.Now())},
		"BypassesFromHigh": {before: plain, after: plain + "bypass_priority: high\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := fixed(t, c.before).Current()
			before := current
			p := effective.New(func() *policy.Policy { return current })
			current = fixed(t, c.after).Current()
			want := effective.Change{
				Before: before.Version(), After: current.Version(), SameLimits: c.sameLimits, Over: c.over,
			}
			if got := p.Replaced(); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
