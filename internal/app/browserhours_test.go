package app_test

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// nightNow is a policy whose users have a night now, in a zone: it began an hour ago, and lasts for eight more.
func nightNow(zone string) string {
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err) // the zones are part of Go
	}
	now := time.Now().In(location)
	return fmt.Sprintf(`
version: 1
time_zone: %s
windows:
  night: {closed: [{from: "%s", to: "%s"}]}
quiet_hours: {window: night, spread: 10m}
categories:
  default: {limits: []}
  drip: {limits: [{max: 1, per: 1h}], quiet_hours: {then: "off"}}
`, zone, now.Add(-time.Hour).Format("15:04"), now.Add(8*time.Hour).Format("15:04"))
}

// The dashboard shows what is held and when it will be released.
func TestQuietHoursInABrowser(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, nightNow("Europe/Vienna"), 1), newReceiver(t)
	d.bulk(append(r.crowd("ada", "default", 4), r.crowd("ben", "drip", 3)...))
	d.awaitStats("all wait that shall", func(s stats) bool { return s.Deferred == 6 && s.Totals.Delivered == 1 })
	b := openTab(t, "http://"+d.apps[0].OpsAddr()+"/")
	b.Await("document.querySelector('#forecast').rows.length === 2")
	b.Await("document.querySelector('#forecast').rows[0].textContent.startsWith('quiet hours4')")
	b.Await("document.querySelector('#forecast').rows[1].textContent.startsWith('limits2')")
	b.Await("document.querySelector('#forecast-chart .chart').getAttribute('aria-label') === " +
		"'Released in the coming 24 hours: quiet hours 4, limits 2'")
	b.look("ada")
	b.Await("document.querySelector('#found-body svg')?.getAttribute('aria-label').startsWith('Quiet hours of ada, Europe/Vienna: ')")
	if found := eval[[]int](b, "[document.querySelectorAll('#found-body rect.quiet').length > 7, "+
		"document.querySelectorAll('#found-body .expected').length, document.querySelectorAll('#found-body svg .now').length].map(Number)"); found[0] != 1 || found[1] != 4 || found[2] < 1 {
		t.Errorf("the week shows %v", found)
	}
	if n := eval[int](b, "document.querySelectorAll('#found-body details li').length"); n < 7 {
		t.Errorf("in words there are %d stretches", n)
	}
	b.Everywhere("week")
	b.look("ben") // only of those categories that wait
	b.Await("document.querySelector('#found-body h3').textContent === 'Quiet hours, Europe/Vienna'")
	showsASwitch(b)
	showsWhatIsHalfKnown(b)
	b.Quiet()
	list := openTab(t, "http://"+d.apps[0].OpsAddr()+"/list.html?user=ada") // until when, by the user's clock
	list.Await("/^quiet hours until [0-9:]+ Europe.Vienna$/.test(document.querySelector('#items').rows[0]?.cells[2]?.textContent)")
	list.Everywhere("quietlist")
	list.Quiet()
}

// autumn is the week of a user in Vienna in which the clocks go back, as the API tells it.
const autumn = `{"zone": "Europe/Vienna", "categories": ["default"], "days": [
	{"date": "2026-10-24", "begins": "2026-10-23T22:00:00Z", "ends": "2026-10-24T22:00:00Z",
		"noon": "2026-10-24T10:00:00Z", "quiet": [{"from": "2026-10-24T20:00:00Z", "until": "2026-10-24T22:00:00Z"}]},
	{"date": "2026-10-25", "begins": "2026-10-24T22:00:00Z", "ends": "2026-10-25T23:00:00Z",
		"noon": "2026-10-25T11:00:00Z", "quiet": [{"from": "2026-10-24T22:00:00Z", "until": "2026-10-25T07:00:00Z"}]},
	{"date": "2026-10-26", "begins": "2026-10-25T23:00:00Z", "ends": "2026-10-26T23:00:00Z",
		"noon": "2026-10-26T11:00:00Z", "quiet": []}]}`

// showsASwitch: a day on which the clocks change is as long as it is, and said to be.
func showsASwitch(b *tab) {
	b.Helper()
	eval[bool](b, `import('./week.js').then((week) => document.querySelector('#found-body').replaceChildren(
		week.weekOf('ada', `+autumn+`, [{at: Date.parse('2026-10-25T07:00:00Z'), id: 'n'}], Date.parse('2026-10-24T12:00:00Z')))) && true`)
	b.Await(`document.querySelector('#found-body svg')?.getAttribute('aria-label') === 'Quiet hours of ada, ' +
		'Europe/Vienna: Sat 24 Oct 22:00 to Sun 08:00; Sun 25 Oct has 25 h, because the clocks change'`)
	widths := eval[[]float64](b, `[...document.querySelectorAll('#found-body svg.hours rect.open')].map(
		(r) => Math.round(r.getAttribute('width')))`)
	if len(widths) != 3 || widths[0] != widths[2] || math.Abs(widths[1]/widths[0]-25.0/24) > 0.01 {
		b.Errorf("the days are %v wide", widths)
	}
}

// showsWhatIsHalfKnown: a week of which not everything is known yet does not show the rest as open.
func showsWhatIsHalfKnown(b *tab) {
	b.Helper()
	eval[bool](b, `import('./week.js').then((week) => document.querySelector('#found-body').replaceChildren(
		week.weekOf('ada', {...`+autumn+`, known_until: '2026-10-25T11:00:00Z'}, [], Date.parse('2026-10-24T12:00:00Z')))) && true`)
	b.Await(`document.querySelector('#found-body svg.hours') !== null && document.querySelector('#found-body .caption').` +
		`textContent.endsWith('Known until Sun 25 Oct 12:00; what follows is left out.')`)
	widths := eval[[]float64](b, `[...document.querySelectorAll('#found-body svg.hours rect.open')].map(
		(r) => Math.round(r.getAttribute('width')))`)
	if len(widths) != 2 || math.Abs(widths[1]/widths[0]-13.0/24) > 0.01 {
		b.Errorf("what is known to be open is %v wide", widths)
	}
}
