package messages_test

import (
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
)

// parseHours reads a policy with some lines about hours, which begin at line 4.
func parseHours(lines ...string) func(*testing.T) string {
	return parsePolicy("version: 1\ncategories:\n  default: {}\n" + strings.Join(lines, "\n") + "\n")
}

// warnOfPolicy reads a policy file of which one warns.
func warnOfPolicy(text string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		p, err := policy.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, w := range policy.Warnings("policy.yaml", p) {
			all = append(all, w.Message)
		}
		return strings.Join(all, "\n")
	}
}

// hourRows are faults of what a policy says about hours.
func hourRows() []row {
	const night, window = `windows: {night: {closed: [{from: "22:00", to: "08:00"}]}}`, "policy.yaml:4:18: windows.night: "
	return []row{
		{
			name: "no time zone", provoke: parseHours("time_zone: Vienna"),
			want: `policy.yaml:4:12: time_zone: "Vienna" is not a time zone: use one from the IANA database, such as Europe/Vienna`,
		},
		{
			name: "an offset", provoke: parseHours("time_zone: +02:00"),
			want: `policy.yaml:4:12: time_zone: "+02:00" is an offset, which has no daylight saving time: use a zone such as Europe/Vienna`,
		},
		{
			name: "an unknown window", provoke: parseHours(night, "quiet_hours: {window: day}"),
			want: `policy.yaml:5:23: quiet_hours.window: no window is named "day"; windows has night`,
		},
		{
			name:    "a range of nothing",
			provoke: parseHours(`windows: {night: {closed: [{from: "08:00", to: "08:00"}]}}`),
			want:    window + "the range 08:00-08:00 begins where it ends: 00:00-24:00 is a whole day",
		},
		{
			name:    "a week that is always closed",
			provoke: parseHours(`windows: {night: {closed: [{from: "00:00", to: "24:00"}]}}`),
			want:    window + "is never open: nothing could ever go out",
		},
		{
			name: "ranges that leave nothing open",
			provoke: parseHours(`windows: {night: {closed: [{from: "00:00", to: "12:00"}, ` +
				`{from: "12:00", to: "24:00"}]}}`),
			want: window + "is never open: nothing could ever go out",
		},
		{
			name: "a window of nothing", provoke: parseHours(`windows: {night: {}}`),
			want: window + "has no range: say when it is closed, or when it is open",
		},
		{
			name: "open and closed",
			provoke: parseHours(`windows: {night: {open: [{from: "08:00", to: "10:00"}], ` +
				`closed: [{from: "22:00", to: "23:00"}]}}`),
			want: window + "has both closed and open ranges: keep only one kind",
		},
		{
			name:    "times of day that are none",
			provoke: parseHours(`windows: {night: {closed: [{from: "8:00", to: "25:00"}]}}`),
			want: `policy.yaml:4:35: windows.night.closed[0].from: "8:00" is not a time of day: write one from 00:00 to 24:00, such as 08:00` + "\n" +
				`policy.yaml:4:47: windows.night.closed[0].to: "25:00" is not a time of day: write one from 00:00 to 24:00, such as 08:00`,
		},
		{
			name:    "a range without its end",
			provoke: parseHours(`windows: {night: {closed: [{from: "22:00"}]}}`),
			want:    `policy.yaml:4:28: windows.night.closed[0]: needs to, a time of day such as "22:00"`,
		},
		{
			name:    "no weekday",
			provoke: parseHours(`windows: {night: {closed: [{days: mon-fry, from: "22:00", to: "08:00"}]}}`),
			want: `policy.yaml:4:35: windows.night.closed[0].days: "fry" is not a weekday: use mon, tue, wed, thu, fri, sat ` +
				"or sun",
		},
		{
			name: "too many ranges",
			provoke: parseHours("windows: {night: {closed: [" +
				strings.Repeat(`{from: "08:00", to: "09:00"},`, 17) + "]}}"),
			want: window + "has 17 ranges, may have at most 16",
		},
		{
			name:    "a date that does not exist",
			provoke: parseHours("windows: {night: {dates: [2026-02-30]}}"),
			want:    `policy.yaml:4:27: windows.night.dates[0]: "2026-02-30" is not a date: write one that exists, such as 2026-12-24`,
		},
		{
			name: "a spread over half the open time", provoke: parseHours(night, "quiet_hours: {window: night, spread: 8h}"),
			want: "policy.yaml:5:38: quiet_hours.spread: must be at most 7h, half of the shortest time that night is open, is 8h",
		},
		{
			name: "a spread of half a day and more", provoke: parseHours(night, "quiet_hours: {window: night, spread: 13h}"),
			want: "policy.yaml:5:38: quiet_hours.spread: must be between 0s and 12h, is 13h",
		},
		{
			name: "no priority", provoke: parseHours(night, "quiet_hours: {window: night, exempt_priority: hihg}"),
			want: `policy.yaml:5:47: quiet_hours.exempt_priority: must be critical, high, normal, low or "" for none, is ` +
				`"hihg" (did you mean high?)`,
		},
		{
			name: "quiet hours without a window", provoke: parseHours(night, "quiet_hours: {spread: 1m}"),
			want: "policy.yaml:5:1: quiet_hours: needs window, the name of one of the windows",
		},
		{
			name: "hours that nothing outlasts",
			provoke: parseHours(`windows: {weekend: {open: [{days: mon-fri, from: "08:00", to: "18:00"}]}}`,
				"quiet_hours: {window: weekend}"),
			want: "policy.yaml:5:1: quiet_hours: weekend is closed for up to 62h, and no category may wait for longer than 24h: " +
				"whatever arrives just as it closes always expires; raise max_defer, or set quiet_hours: {then: drop} in the " +
				"categories that may",
		},
		{
			name: "hours that one category does not outlast",
			provoke: warnOfPolicy("version: 1\nuser_cap: {limits: [{max: 60, per: 1h}]}\n" + night +
				"\nquiet_hours: {window: night}\ncategories:\n  default: {}\n  chat: {max_defer: 2h}\n"),
			want: "categories.chat: may wait for max_defer 2h, and night is closed for up to 10h10m, spread included: notifications that come early in it expire; raise max_defer, or set quiet_hours: {then: drop}",
		},
		{
			name:    "no word for what becomes of a category",
			provoke: parsePolicy("version: 1\ncategories:\n  default: {quiet_hours: {then: wait}}\n"),
			want:    `policy.yaml:3:33: categories.default.quiet_hours.then: must be hold, drop, passive or off, is "wait"`,
		},
	}
}
