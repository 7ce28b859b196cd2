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
	got := strings.TrimPrefix(p.DescribeHours(), "\n")
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
user_cap: {limits: [{max: 60, per: 1m}]}
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
