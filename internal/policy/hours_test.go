package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

const hoursText = `version: 1
time_zone: Europe/Vienna
windows:
  night: {closed: [{days: sun-thu, from: "22:00", to: "07:30"}, {days: [fri, sat], from: "23:00", to: "09:00"}]}
  office: {open: [{days: mon-fri, from: "09:00", to: "17:00"}], dates: [2026-12-25]}
quiet_hours: {window: night, spread: 15m, exempt_priority: high, required: true}
categories:
  default: {}
  pages: {quiet_hours: {then: off}}
`

func TestParseHours(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(hoursText))
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) calendar.Clock { c, _ := calendar.ParseClock(text); return c }
	night := calendar.Window{Closed: []calendar.Range{
		{
			Days: calendar.On(time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday),
			From: at("22:00"), To: at("07:30"),
		},
		{Days: calendar.On(time.Friday, time.Saturday), From: at("23:00"), To: at("09:00")},
	}}
	want := &policy.QuietHours{
		Window: "night", Hours: night, Spread: 15 * time.Minute, ExemptFrom: notification.PriorityHigh, Required: true,
	}
	if diff := cmp.Diff(want, p.QuietHours); diff != "" {
		t.Errorf("quiet hours (-want +got):\n%s", diff)
	}
	if p.TimeZone != "Europe/Vienna" || len(p.Windows) != 2 || len(p.Windows["office"].Dates) != 1 {
		t.Errorf("the zone is %s, the windows are %+v", p.TimeZone, p.Windows)
	}
	if pages, chat := p.Categories["pages"].Quiet, p.Categories["default"].Quiet; pages != policy.Off ||
		chat != policy.Hold {
		t.Errorf("pages are %s, the others %s", pages, chat)
	}
}

func TestParseHoursHasDefaults(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(atEnd(
		`windows: {night: {closed: [{from: "22:00", to: "08:00"}]}}`, `quiet_hours: {window: night}`)))
	if err != nil {
		t.Fatal(err)
	}
	if q := p.QuietHours; q.Spread != policy.DefaultSpread || q.ExemptFrom != notification.PriorityCritical ||
		q.Required {
		t.Errorf("quiet hours are %+v", q)
	}
	if p.TimeZone != policy.DefaultTimeZone {
		t.Errorf("the zone is %s", p.TimeZone)
	}
}

// A person reads the week, and whom it concerns.
func TestDescribeShowsTheWeek(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(hoursText+`  offers: {quiet_hours: {then: drop}}
  news: {quiet_hours: {then: passive}}
  codes: {bypass: true, quiet_hours: {then: drop}}
`))
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(p.Describe(nil), "\n\n")
	const want = `Window night, the quiet hours, by each user's clock:
  Mon-Thu closed 00:00-07:30 and 22:00-24:00
  Fri     closed 00:00-07:30 and 23:00-24:00
  Sat     closed 00:00-09:00 and 23:00-24:00
  Sun     closed 00:00-09:00 and 22:00-24:00
Users without a time zone have Europe/Vienna. It holds beside a user's own hours.
In quiet hours:
  wait for their end: default
  end as expired, reason quiet_hours: offers
  go at once, and do not disturb: news
  go as always: codes, pages
  go out as always, whatever their category: priority critical, high
When they end, each user's notifications start again at a moment of that user's own, within 15m.

Window office, used by users' own quiet hours only, by each user's clock:
  Mon-Fri closed 00:00-09:00 and 17:00-24:00
  Sat-Sun closed all day
  closed all day on Fri 2026-12-25
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("described (-want +got):\n%s", diff)
	}
}

// A category that can't wait for a night to end is warned of.
func TestWarnsOfNightsThatAreTooLong(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(`version: 1
windows: {night: {closed: [{from: "22:00", to: "08:00"}]}}
quiet_hours: {window: night, spread: 15m}
user_cap: {limits: [{max: 60, per: 1h}]}
categories:
  default: {}
  codes: {max_defer: 10h}
  dropped: {max_defer: 5m, quiet_hours: {then: drop}}
  off: {max_defer: 5m, quiet_hours: {then: off}}
  security: {max_defer: 5m, bypass: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range policy.Warnings("p", p) {
		got = append(got, fmt.Sprintf("%d:%d: %s", w.Line, w.Column, w.Message))
	}
	want := []string{"7:3: categories.codes: may wait for max_defer 10h, and night is closed for up to 10h15m, spread included: notifications that come early in it expire; raise max_defer, or set quiet_hours: {then: drop}"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestParseRefusesHours(t *testing.T) {
	t.Parallel()
	window := func(text string) string { return atEnd("windows: {night: " + text + "}") }
	quiet := func(text string) string {
		return atEnd(`windows: {night: {closed: [{from: "22:00", to: "08:00"}]}}`, "quiet_hours: "+text)
	}
	faulty{
		"no zone": {
			text: atEnd("time_zone: Vienna"),
			want: `3:12: time_zone: "Vienna" is not a time zone: use one from the IANA database, such as Europe/Vienna`,
		},
		"an offset": {
			text: atEnd("time_zone: UTC+2"),
			want: `3:12: time_zone: "UTC+2" is an offset, which has no daylight saving time: use a zone such as Europe/Vienna`,
		},
		"an unknown window": {
			text: quiet("{window: nigth}"),
			want: `4:23: quiet_hours.window: no window is named "nigth"; windows has night (did you mean night?)`,
		},
		"no window": {text: quiet("{}"), want: `4:1: quiet_hours: needs window, the name of one of the windows`},
		"a range that begins where it ends": {
			text: window(`{closed: [{from: "08:00", to: "08:00"}]}`),
			want: `3:18: windows.night: the range 08:00-08:00 begins where it ends: 00:00-24:00 is a whole day`,
		},
		"always closed": {
			text: window(`{closed: [{from: "00:00", to: "12:00"}, {from: "12:00", to: "24:00"}]}`),
			want: `3:18: windows.night: is never open: nothing could ever go out`,
		},
		"closed and open": {
			text: window(`{closed: [{from: "00:00", to: "12:00"}], open: [{from: "13:00", to: "14:00"}]}`),
			want: `3:18: windows.night: has both closed and open ranges: keep only one kind`,
		},
		"no range": {
			text: window(`{}`), want: `3:18: windows.night: has no range: say when it is closed, or when it is open`,
		},
		"no time of day": {
			text: window(`{closed: [{from: "8", to: "25:00"}]}`),
			want: "3:35: windows.night.closed[0].from: \"8\" is not a time of day: write one from 00:00 to 24:00, such as 08:00\n" +
				"3:44: windows.night.closed[0].to: \"25:00\" is not a time of day: write one from 00:00 to 24:00, such as 08:00",
		},
		"a date that does not exist": {
			text: window(`{closed: [{from: "22:00", to: "08:00"}], dates: [2026-02-30]}`),
			want: `3:67: windows.night.dates[0]: "2026-02-30" is not a date: write one that exists, such as 2026-12-24`,
		},
		"no weekday": {
			text: window(`{closed: [{days: mon-fry, from: "22:00", to: "08:00"}]}`),
			want: `3:35: windows.night.closed[0].days: "fry" is not a weekday: use mon, tue, wed, thu, fri, sat or sun`,
		},
		"no day": {
			text: window(`{closed: [{days: [], from: "22:00", to: "08:00"}]}`),
			want: `3:35: windows.night.closed[0].days: names no day; leave it out for every day`,
		},
		"days that are none": {
			text: window(`{open: [{days: {}, from: "22:00", to: "08:00"}]}`),
			want: `3:33: windows.night.open[0].days: must be a list of weekdays such as mon-fri, or [sat, sun]`,
		},
		"days inside themselves": {
			text: window(`{closed: [{days: &a [mon, *a], from: "22:00", to: "08:00"}]}`),
			want: `3:38: windows.night.closed[0].days[1]: must be weekdays such as mon-fri`,
		},
		"days nested in days": {
			text: window(`{closed: [{days: [mon, [tue]], from: "22:00", to: "08:00"}]}`),
			want: `3:41: windows.night.closed[0].days[1]: must be weekdays such as mon-fri`,
		},
		"more ranges than may be": {
			text: window("{closed: [" + strings.Repeat(`{from: "08:00", to: "09:00"},`, 17) + "]}"),
			want: `3:18: windows.night: has 17 ranges, may have at most 16`,
		},
		"nothing can outlast it": {
			text: atEnd(`windows: {weekend: {open: [{days: mon-fri, from: "08:00", to: "18:00"}]}}`,
				"quiet_hours: {window: weekend}"),
			want: "4:1: quiet_hours: weekend is closed for up to 62h, and no category may wait for longer than 24h: whatever arrives just as it closes always expires; raise max_defer, or set quiet_hours: {then: drop} in the " +
				"categories that may",
		},
		"a spread over half the open time": {
			text: quiet("{window: night, spread: 8h}"),
			want: `4:38: quiet_hours.spread: must be at most 7h, half of the shortest time that night is open, is 8h`,
		},
		"nothing then": {
			text: "version: 1\ncategories:\n  default: {quiet_hours: {then: wait}}\n",
			want: `3:33: categories.default.quiet_hours.then: must be hold, drop, passive or off, is "wait"`,
		},
	}.run(t)
}

// Aliases of aliases make a short file a long one. Such a file is refused before it costs much.
func TestParseBoundsWhatAliasesRepeat(t *testing.T) {
	t.Parallel()
	days := "[" + strings.Repeat("mon,\n      ", 366) + "]"
	text := []string{
		"windows:", `  night: {closed: [&r {days: ` + days + `, from: "22:00", to: "08:00"}]}`,
		"  w: {closed: &c [" + strings.Repeat("*r, ", 16) + "]}",
	}
	for i := range 100 {
		text = append(text, fmt.Sprintf("  w%d: {closed: *c}", i))
	}
	_, err := policy.Parse("p", []byte(atEnd(text...)))
	const want = "the file has more than the 262144 values that a policy may have, with all that aliases repeat"
	if err == nil || strings.Count(err.Error(), want) != 1 {
		t.Errorf("gives %v, want %s", err, want)
	}
}
