package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// refusing is a provider that refuses everything for good.
func refusing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is no recipient any more", http.StatusGone)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// fullPage is how many a page of 100 shows at least when more follow: on Redis it may end a few earlier.
func fullPage(on setup) int {
	if on == onRedis {
		return 90
	}
	return 100
}

// TestListInABrowser finds notifications as people do: by keyboard, by address, and back again.
func TestListInABrowser(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, browserPolicy, 1), newReceiver(t)
	long := strings.Repeat("long-id.", 7)
	failed := r.crowd("ben", "default", 120)
	for i, one := range failed {
		one["id"], one["to"] = fmt.Sprintf("%s%03d", long, i), refusing(t)
	}
	d.bulk(failed)
	d.bulk(r.crowd("ada", "slow", 5))
	d.awaitStats("all but four ended", func(s stats) bool {
		return s.Deferred == 4 && s.Totals.Failed == 120 && s.Totals.Delivered == 1
	})
	b := openTab(t, "http://"+d.apps[0].OpsAddr()+"/list.html")
	b.Await(fmt.Sprintf("document.querySelector('#items').rows.length >= %d", fullPage(onRedis)))
	filters(b)
	pages(b)
	lookUpFromList(b, long)
	b.Everywhere("list")
	cancelsAll(b, d)
}

// filters: a status by its link, a user by the form, both in the address; a wrong value is told with those there are.
func filters(b *tab) {
	b.Helper()
	b.TabTo("#statuses a[href='list.html?status=deferred']")
	b.Press(kb.Enter)
	b.Await("location.search === '?status=deferred' && document.querySelector('#items').rows.length === 4")
	b.TabTo("#filter summary")
	b.Press(kb.Enter)
	b.TabTo("#filter [name=user]")
	b.Press("nobody", kb.Enter)
	b.Await("document.querySelector('#items').textContent.includes('No notification matches')")
	b.Await("location.search === '?status=deferred&user=nobody'")
	eval[bool](b, "history.back() || true")
	b.Await("location.search === '?status=deferred' && document.querySelector('#items').rows.length === 4")
	b.Await("document.querySelector('#filter').elements.user.value === ''")
	b.TabTo("#filter [name=category]")
	b.Press("slwo", kb.Enter)
	b.Await("!document.querySelector('#fault').hidden && document.querySelector('#fault').textContent.includes('slow')")
	b.TabTo("#filter [type=reset]")
	b.Press(kb.Enter)
	b.Await("location.search === '' && document.querySelector('#fault').hidden")
}

// pages leads to older ones and back to the newest.
func pages(b *tab) {
	b.Helper()
	b.TabTo("#statuses a[href='list.html?status=failed']")
	b.Press(kb.Enter)
	b.Await("location.search === '?status=failed'")
	b.Await("[...document.querySelectorAll('#items tr')].every((row) => row.cells[1].textContent === 'failed')")
	seen := "[...document.querySelectorAll('#items td:last-child')].map((c) => c.textContent)"
	ids := map[string]bool{}
	for range 50 {
		for _, id := range eval[[]string](b, seen) {
			ids[id] = true
		}
		if !eval[bool](b, "[...document.querySelectorAll('#pages a')].some((a) => a.textContent.startsWith('Older'))") {
			break
		}
		eval[bool](b, "window.shownBefore = document.querySelector('#items').firstChild; true")
		b.TabTo("#pages a:last-child")
		b.Press(kb.Enter)
		b.Await("document.querySelector('#items').firstChild !== window.shownBefore")
	}
	if len(ids) != 120 {
		b.Errorf("the pages show %d failed ones, want 120", len(ids))
	}
}

// lookUpFromList follows the link of a notification to its timeline, and comes back.
func lookUpFromList(b *tab, id string) {
	b.Helper()
	b.TabTo("#filter [name=text]")
	b.Press(id+"007", kb.Enter)
	b.Await("document.querySelectorAll('#items a').length === 2")
	b.TabTo("#items td:last-child a")
	b.Press(kb.Enter)
	b.Await("(document.querySelector('#found-title')?.textContent ?? '').includes('007')")
	b.Await("document.querySelector('#found-body').textContent.includes('target_gone: 410')")
	eval[bool](b, "history.back() || true")
	b.Await("document.querySelectorAll('#items a').length === 2")
}

// cancelsAll: all that match are cancelled by keyboard, once their number has been told and confirmed.
func cancelsAll(b *tab, d *fleet) {
	b.Helper()
	if err := chromedp.Do(b.Page, chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate("http://"+d.apps[0].OpsAddr()+"/list.html?status=deferred&user=ada")); err != nil {
		b.Fatal(err)
	}
	b.Await("document.querySelector('#items').rows.length === 4")
	b.TabTo("#cancel-all")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure')?.open === true && document.activeElement.id === 'sure-no'")
	if asked := eval[string](b, "document.querySelector('#sure-text').textContent"); !strings.HasPrefix(asked,
		"Cancel 4 notifications?") || !strings.Contains(asked, "user ada") {
		b.Errorf("the dialog says %q", asked)
	}
	b.Press("shift+"+kb.Tab, kb.Enter)
	b.Await("document.querySelector('#jobs').textContent.includes('done: 4 of 4 cancelled')")
	b.Await("document.querySelector('#items').textContent.includes('No notification matches')")
	if s := d.stats(); s.Deferred != 0 || s.Totals.Cancelled != 4 {
		b.Errorf("the counts are %+v", s)
	}
	b.Screenshot("list-after-1280")
}
