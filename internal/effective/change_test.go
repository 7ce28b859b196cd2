package effective_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
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

// The end of the policy's night is spread over those whom it holds: the users without a zone of their own, or the few
// who live where it is night.
func TestReplacedCountsWhomTheNightHolds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	const night = "version: 1\nwindows: {night: {closed: [{from: \"22:00\", to: \"08:00\"}]}, day: {closed: [{from: " +
		"\"09:00\", to: \"17:00\"}]}}\nquiet_hours: {window: night, spread: 10m}\ncategories:\n  default: {max_defer: 48h}\n"
	inZone := func(zone string) notification.Preferences { return notification.Preferences{TimeZone: zone} }
	inTokyo, ownDay := inZone("Asia/Tokyo"), inZone("Asia/Tokyo") // where it is 21:00
	inTokyo.QuietHours = []byte(`{"window": "night"}`)
	ownDay.QuietHours = []byte(`{"window": "day"}`)
	for name, c := range map[string]struct {
		zone string
		of   map[string]notification.Preferences
		over time.Duration
		held int
	}{
		"NobodyAsleep":    {zone: "UTC", of: map[string]notification.Preferences{"a": inZone("Europe/Berlin")}},
		"ThePolicysZone":  {zone: "Pacific/Auckland", over: 10 * time.Minute},
		"JustOver":        {zone: "America/Halifax", of: nil}, // 09:00
		"WithinTheSpread": {zone: "America/Caracas", over: 10 * time.Minute},
		"SomeElsewhere": {
			zone: "UTC", over: 10 * time.Minute, held: 2, of: map[string]notification.Preferences{
				"a": inZone("Pacific/Auckland"), "b": inZone("Pacific/Auckland"), "c": inZone("Europe/Berlin"),
				"d": ownDay,
				"e": inTokyo,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			current := parse(t, "time_zone: "+c.zone+"\n"+night)
			p := effective.New(func() *policy.Policy { return current })
			p.Now = func() time.Time { return now }
			p.Own = preferences.NewMemory()
			for user, wish := range c.of {
				if err := p.Own.Set(user, &wish); err != nil {
					t.Fatal(err)
				}
			}
			current = parse(t, "version: 1\ncategories:\n  default: {max_defer: 48h}\n")
			if got := p.Replaced(); got.Over != c.over || got.Held != c.held {
				t.Errorf("over %s, for %d users at most; want %s and %d", got.Over, got.Held, c.over, c.held)
			}
		})
	}
}
