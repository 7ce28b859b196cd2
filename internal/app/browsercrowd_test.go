//go:build accept

package app_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// crowdedPolicy defers for days.
const crowdedPolicy = `
version: 1
categories:
  default: {limits: []}
  slow: {limits: [{max: 1, per: 1h}], max_defer: 720h}
`

// The longest names that a user and a notification may have, or nearly.
var (
	longUser = "a-user-with-a-very-long-name-" + strings.Repeat("abcdefghij", 20)
	longID   = strings.Repeat("long-id.", 7)
)

// The dashboard of 100,000 deferred of 1,000 users and 5,000 failed, by keyboard, at 1,280 and 390 px: its figures are
// right, its requests bounded, nothing is clipped, and axe finds nothing.
func TestDashboardOfALargeCrowd(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, crowdedPolicy, 1), newReceiver(t)
			crowd(d, r)
			b := openTab(t, "http://"+d.apps[0].OpsAddr()+"/")
			showsTheCrowd(b)
			b.Everywhere("overview-" + string(on))
			looksUpInTheCrowd(b, string(on))
			pagesThroughTheCrowd(b, on)
			b.Everywhere("list-" + string(on))
			b.Quiet()
		})
	}
}

// crowd has 100,000 deferred, 1,000 delivered and 5,000 failed.
func crowd(d *fleet, r *receiver) {
	d.t.Helper()
	const users, each, failed = 1000, 101, 5000
	var all []item
	for i := range users * each {
		user := fmt.Sprintf("user-%03d", i%users)
		if i%users == 0 {
			user = longUser
		}
		all = append(all, item{"user_id": user, "category": "slow", "to": r.server.URL, "title": fmt.Sprint(i)})
	}
	refused := refusing(d.t)
	for i := range failed {
		id, user := fmt.Sprintf("%s%05d", longID, i), fmt.Sprintf("user-%03d", i%users)
		all = append(all, item{"id": id, "user_id": user, "to": refused})
	}
	for part := range slices.Chunk(all, 2000) {
		d.bulk(part)
	}
	d.awaitStats("the crowd waits", func(s stats) bool {
		return s.Deferred == users*(each-1) && s.Totals.Delivered == users && s.Totals.Failed == failed
	})
}

// requests is how many requests the page has made.
const requests = "performance.getEntriesByType('resource').length"

// showsTheCrowd compares the tiles, and makes sure that a page that is looked at asks for nothing more.
func showsTheCrowd(b *tab) {
	b.Helper()
	b.Await("document.querySelector('#deferred').textContent === '100,000'")
	b.Await("document.querySelector('#failed').textContent === '5,000'")
	b.Await("document.querySelector('#deferred-users').textContent === 'of 1,000 users'")
	b.Await("document.querySelector('#failed-why').textContent.includes('5,000 target_gone: 410')")
	b.Await("document.querySelector('#drain').textContent.includes('4 d')")
	b.Await("document.querySelector('#history-chart .chart') !== null")
	eval[bool](b, `window.longest = 0, new PerformanceObserver((list) => {
		for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration)
	}).observe({ type: 'longtask' }) || true`)
	opened := 0
	for i := range 7 { // figures come once a second over the stream that is open
		if i == 2 {
			opened = eval[int](b, requests)
		}
		shown := eval[string](b, "document.querySelector('#connection').textContent")
		b.Await(fmt.Sprintf("document.querySelector('#connection').textContent !== %q", shown))
	}
	later := eval[int](b, requests)
	b.Logf("the page makes %d requests when it opens and %d while it shows 5 further figures; it was busy for %.0f ms "+
		"at most", opened, later-opened, eval[float64](b, "window.longest"))
	if opened > 20 || later > opened+1 { // it asks for the history once a minute
		b.Errorf("it made %d requests when it opened, want at most 20, and %d after that, want 1 at most", opened,
			later-opened)
	}
}

// looksUpInTheCrowd opens the user with most that waits, and a notification with a long id.
func looksUpInTheCrowd(b *tab, on string) {
	b.Helper()
	for name, query := range map[string]string{"user": longUser, "notification": longID + "04999"} {
		before, began := eval[int](b, requests), time.Now()
		b.look(query)
		b.Await("document.querySelector('#found-body').textContent.length > 100")
		b.Logf("%s looked up with %d requests in %s", name, eval[int](b, requests)-before,
			time.Since(began).Round(time.Millisecond))
		b.Everywhere(name + "-" + on)
	}
}

// pagesThroughTheCrowd goes to the list and through pages of those that are deferred and of those that failed.
func pagesThroughTheCrowd(b *tab, on setup) {
	b.Helper()
	b.TabTo("nav a[href='list.html']")
	b.Press(kb.Enter)
	b.Await("location.pathname.endsWith('list.html') && document.querySelector('#items')?.rows.length >= " +
		strconv.Itoa(fullPage(on)))
	for _, status := range []string{"deferred", "failed"} {
		b.TabTo(fmt.Sprintf("#statuses a[href='list.html?status=%s']", status))
		b.Press(kb.Enter)
		b.Await(fmt.Sprintf("location.search === '?status=%s'", status))
		seen := map[string]bool{}
		var slowest time.Duration
		before := eval[int](b, requests)
		for page := range 5 {
			began := time.Now()
			b.Await(fmt.Sprintf("document.querySelector('#connection').textContent.startsWith('loaded') && "+
				"[...document.querySelectorAll('#items tr')].every((row) => row.cells[1]?.textContent === '%s')", status))
			slowest = max(slowest, time.Since(began))
			for _, id := range eval[[]string](b, "[...document.querySelectorAll('#items td:last-child')].map("+
				"(cell) => cell.textContent)") {
				seen[id] = true
			}
			if page == 4 {
				break
			}
			eval[bool](b, "window.shownBefore = document.querySelector('#items').firstChild; true")
			b.TabTo("#pages a:last-child")
			b.Press(kb.Enter)
			b.Await("document.querySelector('#items').firstChild !== window.shownBefore")
		}
		made := eval[int](b, requests) - before
		b.Logf("%d %s on 5 pages with %d requests; a page was there after %s at most", len(seen), status, made,
			slowest.Round(time.Millisecond))
		if len(seen) < 5*fullPage(on) || len(seen) > 500 || made > 5 {
			b.Errorf("5 pages of those that %s show %d with %d requests, want at least %d with 5", status, len(seen), made,
				5*fullPage(on))
		}
	}
}
