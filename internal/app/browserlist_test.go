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

// TestListInABrowser finds notifications as people do: by keyboard, by address, and back again.
func TestListInABrowser(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, browserPolicy, 1), newReceiver(t)
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
			b.await("document.querySelector('#items').rows.length >= 100")
			filters(b)
			pages(b)
			lookUpFromList(b, long)
			b.fits()
			cancelsAll(b, d)
		})
	}
}

// filters: a status by its link, a user by the form, both in the address; a wrong value is told with those there are.
func filters(b *tab) {
	b.Helper()
	b.tabTo("#statuses a[href='list.html?status=deferred']")
	b.press(kb.Enter)
	b.await("location.search === '?status=deferred' && document.querySelector('#items').rows.length === 4")
	b.tabTo("#filter [name=user]")
	b.press("nobody", kb.Enter)
	b.await("document.querySelector('#items').textContent.includes('No notification matches')")
	b.await("location.search === '?status=deferred&user=nobody'")
	eval[bool](b, "history.back() || true")
	b.await("location.search === '?status=deferred' && document.querySelector('#items').rows.length === 4")
	b.await("document.querySelector('#filter').elements.user.value === ''")
	b.tabTo("#filter [name=category]")
	b.press("slwo", kb.Enter)
	b.await("!document.querySelector('#fault').hidden && document.querySelector('#fault').textContent.includes('slow')")
	b.tabTo("#filter [type=reset]")
	b.press(kb.Enter)
	b.await("location.search === '' && document.querySelector('#fault').hidden")
}

// pages leads to older ones and back to the newest.
func pages(b *tab) {
	b.Helper()
	b.tabTo("#statuses a[href='list.html?status=failed']")
	b.press(kb.Enter)
	b.await("location.search === '?status=failed'")
	b.await("[...document.querySelectorAll('#items tr')].every((row) => row.cells[1].textContent === 'failed')")
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
		b.tabTo("#pages a:last-child")
		b.press(kb.Enter)
		b.await("document.querySelector('#items').firstChild !== window.shownBefore")
	}
	if len(ids) != 120 {
		b.Errorf("the pages show %d failed ones, want 120", len(ids))
	}
}

// lookUpFromList follows the link of a notification to its timeline, and comes back.
func lookUpFromList(b *tab, id string) {
	b.Helper()
	b.tabTo("#filter [name=text]")
	b.press(id+"007", kb.Enter)
	b.await("document.querySelectorAll('#items a').length === 2")
	b.tabTo("#items td:last-child a")
	b.press(kb.Enter)
	b.await("(document.querySelector('#found-title')?.textContent ?? '').includes('007')")
	b.await("document.querySelector('#found-body').textContent.includes('target_gone: 410')")
	eval[bool](b, "history.back() || true")
	b.await("document.querySelectorAll('#items a').length === 2")
}

// cancelsAll: all that match are cancelled by keyboard, once their number has been told and confirmed.
func cancelsAll(b *tab, d *fleet) {
	b.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 900),
		chromedp.Navigate("http://"+d.apps[0].OpsAddr()+"/list.html?status=deferred&user=ada")); err != nil {
		b.Fatal(err)
	}
	b.await("document.querySelector('#items').rows.length === 4")
	b.tabTo("#cancel-all")
	b.press(kb.Enter)
	b.await("document.querySelector('#sure')?.open === true && document.activeElement.id === 'sure-no'")
	if asked := eval[string](b, "document.querySelector('#sure-text').textContent"); !strings.HasPrefix(asked,
		"Cancel 4 notifications?") || !strings.Contains(asked, "user ada") {
		b.Errorf("the dialog says %q", asked)
	}
	b.press("shift+"+kb.Tab, kb.Enter)
	b.await("document.querySelector('#jobs').textContent.includes('done: 4 of 4 cancelled')")
	b.await("document.querySelector('#items').textContent.includes('No notification matches')")
	if s := d.stats(); s.Deferred != 0 || s.Totals.Cancelled != 4 {
		b.Errorf("the counts are %+v", s)
	}
	b.screenshot("list-after-1280")
}

// fits: the list stays within a phone's width and axe finds nothing.
func (b *tab) fits() {
	b.Helper()
	b.accessible("at 1280 px")
	b.screenshot("list-1280")
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(390, 844)); err != nil {
		b.Fatal(err)
	}
	b.accessible("at 390 px")
	if width := eval[int](b, "document.documentElement.scrollWidth"); width > 390 {
		b.Errorf("at 390 px the page is %d wide", width)
	}
	b.screenshot("list-390")
}
