package app_test

import (
	"fmt"
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
	b.Await("document.querySelector('#found-body .week')?.getAttribute('aria-label').startsWith('Quiet hours of ada, Europe/Vienna: ')")
	if found := eval[[]int](b, "[document.querySelectorAll('#found-body .line .quiet').length >= 7, "+
		"document.querySelectorAll('#found-body .week .dot').length, document.querySelectorAll('#found-body .week .now').length].map(Number)"); found[0] != 1 || found[1] != 4 || found[2] < 1 {
		t.Errorf("the week shows %v", found)
	}
	if n := eval[int](b, "document.querySelectorAll('#found-body details li').length"); n < 7 {
		t.Errorf("in words there are %d stretches", n)
	}
	b.Everywhere("week")
	b.look("ben") // only of those categories that wait
	b.Await("[...document.querySelectorAll('#found-body h3')].some((h) => h.textContent === 'Quiet hours, Europe/Vienna')")
	b.Quiet()
	list := openTab(t, "http://"+d.apps[0].OpsAddr()+"/list.html?user=ada") // until when, by the user's clock
	list.Await("/^quiet hours until [0-9:]+ Europe.Vienna$/.test(document.querySelector('#items').rows[0]?.cells[2]?.textContent)")
	list.Everywhere("quietlist")
	list.Quiet()
}
