package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/browsertest"
)

// browserPolicy lets nothing move while one looks on: what is deferred stays so.
const browserPolicy = `
version: 1
categories:
  default: {limits: []}
  drip: {limits: [{max: 1, per: 1h}]}
  slow: {limits: [{max: 1, per: 1h}]}
`

// tab is a page of the dashboard in a real browser.
type tab struct{ *browsertest.Tab }

// openTab opens a process's dashboard.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	b := &tab{browsertest.Open(t, 1280, 900)}
	b.Navigate(url)
	return b
}

// eval evaluates JavaScript in the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	return browsertest.Eval[T](b.Tab, expression)
}

// look looks up with the search box, by keyboard.
func (b *tab) look(query string) {
	b.Helper()
	b.TabTo("#query")
	eval[bool](b, "document.activeElement.select() || true")
	b.Press(query, kb.Enter)
	b.Await(fmt.Sprintf("document.querySelector('#found-title').textContent.includes(%q)", query))
}

// TestDashboardInABrowser drives the page as people do.
func TestDashboardInABrowser(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, browserPolicy, 1), newReceiver(t)
	home := "http://" + d.apps[0].OpsAddr() + "/"
	b := openTab(t, home)
	b.Await("document.querySelector('#connection').textContent.startsWith('live')")

	showsWhatWaits(b, d, r)
	b.Navigate(home + "?page=system")
	showsHistory(b)
	waiting := searches(b, d, r)
	b.Navigate(home + "?page=channels")
	b.Await("document.querySelector('#subject').options.length > 5")
	pausesByKeyboard(b)
	closesEachDialog(b)
	cancelsByKeyboard(b, d, waiting)

	comparesAPolicy(b, home)
	for _, page := range []string{
		"", "?page=channels", "?page=system", "policy.html", "list.html", "?q=ada", "?q=" + waiting,
	} {
		b.Navigate(home + page)
		b.Await("document.querySelector('#main').children.length > 0")
		if page == "" || strings.HasPrefix(page, "?page") {
			b.Await("document.querySelector('#connection').textContent.startsWith('live')")
		}
		b.Everywhere("page-" + strings.Trim(page, "?"))
	}
	if elsewhere := eval[[]string](b, "performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !n.startsWith(location.origin))"); len(elsewhere) > 0 {
		t.Errorf("it asks other hosts: %v", elsewhere)
	}
	b.Quiet()
}

// comparesAPolicy: the page of the policy says what a file would change.
func comparesAPolicy(b *tab, home string) {
	b.Helper()
	b.Navigate(home + "policy.html")
	b.Await("document.querySelector('main').textContent.includes('1/1h') && document.querySelector('main').textContent.includes('1 process has it')")
	for text, want := range map[string]string{
		strings.Replace(browserPolicy, "per: 1h", "per: 2h", 1): "limit 1/2h",
		"version: 1\ncategories: []":                            "categories",
	} {
		file := filepath.Join(b.TempDir(), "policy.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := chromedp.Do(b.Page, chromedp.SetUploadFiles("#diff input", []string{file})); err != nil {
			b.Fatal(err)
		}
		b.TabTo("#diff button")
		b.Press(kb.Enter)
		b.Await(fmt.Sprintf("document.querySelector('section:last-child').textContent.includes(%q)", want))
	}
}

// showsWhatWaits: the deferred count is that of the API, and falls to 0 once a new policy lets the crowd go.
func showsWhatWaits(b *tab, d *fleet, r *receiver) {
	b.Helper()
	d.bulk(r.crowd("dora", "drip", 4))
	b.Await("document.querySelector('#deferred').textContent === '3'")
	if s := d.awaitStats("one delivered", func(s stats) bool { return s.Totals.Delivered == 1 }); s.Deferred != 3 {
		b.Errorf("the page says 3 deferred, the API %+v", s)
	}
	b.Await("document.querySelector('#crowds').textContent.includes('dora')")
	d.writePolicy(strings.Replace(browserPolicy, "drip: {limits: [{max: 1, per: 1h}]}", "drip: {limits: []}", 1))
	b.Await("document.querySelector('#deferred').textContent === '0'")
	if s := d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == 4 }); s.Deferred != 0 {
		b.Errorf("the page says 0 deferred, the API %+v", s)
	}
	b.Await("document.querySelector('#rates-chart .chart').getAttribute('aria-label').startsWith('Per second: accepted ')")
}

// showsHistory: the last hours of one category, by keyboard.
func showsHistory(b *tab) {
	b.Helper()
	b.Await("document.querySelector('#history-category').options.length === 4")
	b.TabTo("#history-category")
	b.Choose("drip")
	b.Await("document.querySelector('#history-chart .chart').getAttribute('aria-label').startsWith(" +
		"'drip, last 24h: accepted 4, delivered 4, ')")
}

// searches finds a notification and a user, and gives one that waits.
func searches(b *tab, d *fleet, r *receiver) string {
	b.Helper()
	ids := d.bulk(r.crowd("ada", "slow", 5))
	d.awaitStats("four deferred", func(s stats) bool { return s.Deferred == 4 && s.Totals.Delivered == 5 })
	b.look(ids[1])
	b.Await("[...document.querySelectorAll('#found-body .steps li')].map((step) => step.className.trim()).join() === 'accepted,deferred'")
	b.Await("document.querySelector('#found-body').textContent.includes('limit 1/1h')")
	b.Screenshot("notification-1280")
	b.look("ada")
	b.Await("document.querySelector('#found-body .windows').getAttribute('aria-label') === 'Windows of ada in slow: 1 counted, 4 expected'")
	b.Screenshot("user-1280")
	b.look("nobody-of-this-name")
	b.Await("document.querySelector('#found-body').textContent.includes('No notification has this id')")
	return ids[4]
}

// pausesByKeyboard pauses a category and resumes it, without a mouse.
func pausesByKeyboard(b *tab) {
	b.Helper()
	b.TabTo("#subject")
	b.Choose("category slow")
	b.Press(kb.Tab, "a test", kb.Tab, kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Accessible("in the dialog")
	b.Press(kb.Enter) // no
	b.Await("!document.querySelector('#sure').open")
	b.TabTo("#pause button")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Press("shift+"+kb.Tab, kb.Enter) // yes
	b.Await("document.querySelector('#pauses').textContent.includes('category slow is paused')")
	b.Await("document.querySelector('#warnings').textContent.includes('Paused: category slow, by')")
	b.TabTo("#pauses button")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Press("shift+"+kb.Tab, kb.Enter)
	b.Await("document.querySelector('#pauses').children.length === 0")
	b.Await("document.querySelector('#audit').rows.length === 2 && document.querySelector('#audit').textContent.includes('a test')")
}

// closesEachDialog: who asks again before the page has noticed that the first question was closed gets the reply to the
// second one.
func closesEachDialog(b *tab) {
	b.Helper()
	eval[bool](b, `(() => {
		const pause = document.querySelector('#pause button')
		document.querySelector('#subject').value = JSON.stringify({ kind: 'category', name: 'drip' })
		pause.click()
		document.querySelector('#sure-no').click()
		pause.click()
		return true
	})()`)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Press("shift+"+kb.Tab, kb.Enter) // yes
	b.Await("document.querySelector('#pauses').textContent.includes('category drip is paused')")
	b.TabTo("#warnings button")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Press("shift+"+kb.Tab, kb.Enter)
	b.Await("document.querySelector('#pauses').children.length === 0")
}

// cancelsByKeyboard cancels a notification that waits.
func cancelsByKeyboard(b *tab, d *fleet, id string) {
	b.Helper()
	b.look(id)
	b.TabTo("#found-body .row button:last-child")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.Press("shift+"+kb.Tab, kb.Enter)
	b.Await("document.querySelector('#found-body').textContent.includes('cancelled')")
	if v := d.view(id); v.Status != "cancelled" {
		b.Errorf("it is %s", v.Status)
	}
}

// Elsewhere the page asks for the token once, and uses it.
func TestDashboardAsksForTheToken(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, browserPolicy, 0)
	s := d.settings()
	s.OpsToken = "open-sesame"
	process := d.startWith(s)
	b := openTab(t, "http://"+process.OpsAddr()+"/?page=channels")
	b.Await("document.querySelector('#subject').options.length > 5")
	for i, want := range []string{"category slow", "category drip"} {
		b.TabTo("#subject")
		b.Choose(want)
		b.Press(kb.Tab, kb.Tab, kb.Enter)
		b.Await("document.querySelector('#sure').open")
		b.Press("shift+"+kb.Tab, kb.Enter)
		if i == 0 {
			b.Await("document.querySelector('#sure').open && document.activeElement.id === 'token'")
			b.Press("open-sesame", kb.Enter)
		}
		b.Await(fmt.Sprintf("document.querySelector('#pauses').textContent.includes('%s is paused')", want))
	}
	d.act(process, 401, ops.Action{Action: "resume", Kind: "category", Name: "slow"})
}
