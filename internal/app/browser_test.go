package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pacer-notify/pacer/internal/ops"
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
type tab struct {
	*testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// openTab opens a process's dashboard in Chromium, which `make install-servers` installs.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root has none of
	}
	ctx, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(options...),
		chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // it ends with the test in any case
		cancel()
	})
	b := &tab{T: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type != "log" && m.Type != "info" && m.Type != "debug" {
				b.mu.Lock()
				b.complaints = append(b.complaints, m.String())
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cancel(); listening.Wait() })
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url)); err != nil {
		t.Fatalf("open the dashboard in Chromium: %v; make install-servers installs it", err)
	}
	return b
}

// eval evaluates JavaScript in the page.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true.
func (b *tab) await(expression string) {
	b.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](b, expression); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("never true: %s; the page says %s", expression, eval[string](b, "document.body.innerText"))
		}
	}
}

// press presses keys, one after the other.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		var options []chromedp.KeyOption
		if rest, shifted := strings.CutPrefix(key, "shift+"); shifted {
			key, options = rest, append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		if err := chromedp.Do(b.ctx, chromedp.KeyEvent(key, options...)); err != nil {
			b.Fatalf("press %q: %v", key, err)
		}
	}
}

// tabTo presses Tab until what a selector finds has the focus.
func (b *tab) tabTo(selector string) {
	b.Helper()
	for range 400 { // a list has some two hundred links
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.press(kb.Tab)
	}
	b.Fatalf("%s can't be reached with the Tab key", selector)
}

// look looks up with the search box, by keyboard.
func (b *tab) look(query string) {
	b.Helper()
	b.tabTo("#query")
	eval[bool](b, "document.activeElement.select() || true")
	b.press(query, kb.Enter)
	b.await(fmt.Sprintf("document.querySelector('#found-title').textContent.includes(%q)", query))
}

// screenshot keeps a picture of the whole page for people, with -artifacts.
func (b *tab) screenshot(name string) {
	b.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), picture, 0o600)
	}
	if err != nil {
		b.Errorf("screenshot %s: %v", name, err)
	}
}

// accessible holds the page to the rules of axe.
func (b *tab) accessible(when string) {
	b.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		b.Fatalf("%v: run make install-servers", err)
	}
	eval[bool](b, string(source)+"; true")
	found := eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.flatMap((v) =>
		v.nodes.map((n) => v.impact + ' ' + v.id + ': ' + n.target.join(' ') + ' ' + n.failureSummary)))`)
	for _, violation := range found {
		b.Errorf("%s, axe finds: %s", when, violation)
	}
}

// TestDashboardInABrowser drives the page as people do.
func TestDashboardInABrowser(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, browserPolicy, 1), newReceiver(t)
	b := openTab(t, "http://"+d.apps[0].OpsAddr()+"/")
	b.await("document.querySelector('#connection').textContent.startsWith('live')")

	showsWhatWaits(b, d, r)
	showsHistory(b)
	waiting := searches(b, d, r)
	pausesByKeyboard(b)
	closesEachDialog(b)
	cancelsByKeyboard(b, d, waiting)

	b.accessible("in light colours at 1280 px")
	b.screenshot("light-1280")
	for _, scheme := range []string{"dark", "light"} {
		scheme := emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}
		if err := chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, scheme)
			return err
		}), chromedp.EmulateViewport(390, 844)); err != nil {
			t.Fatal(err)
		}
		name := scheme.Features[0].Value
		b.accessible("in " + name + " colours at 390 px")
		if width := eval[int](b, "document.documentElement.scrollWidth"); width > 390 {
			t.Errorf("at 390 px the page is %d wide", width)
		}
		b.screenshot(name + "-390")
	}
	if elsewhere := eval[[]string](b, "performance.getEntriesByType('resource').map((e) => e.name).filter((n) => !n.startsWith(location.origin))"); len(elsewhere) > 0 {
		t.Errorf("it asks other hosts: %v", elsewhere)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("the console says %v", b.complaints)
	}
}

// showsWhatWaits: the deferred count is that of the API, and falls to 0 once a new policy lets the crowd go.
func showsWhatWaits(b *tab, d *fleet, r *receiver) {
	b.Helper()
	d.bulk(r.crowd("dora", "drip", 4))
	b.await("document.querySelector('#deferred').textContent === '3'")
	if s := d.awaitStats("one delivered", func(s stats) bool { return s.Totals.Delivered == 1 }); s.Deferred != 3 {
		b.Errorf("the page says 3 deferred, the API %+v", s)
	}
	b.await("document.querySelector('#crowds').textContent.includes('dora')")
	d.replacePolicy(strings.Replace(browserPolicy, "drip: {limits: [{max: 1, per: 1h}]}", "drip: {limits: []}", 1))
	b.await("document.querySelector('#deferred').textContent === '0'")
	if s := d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == 4 }); s.Deferred != 0 {
		b.Errorf("the page says 0 deferred, the API %+v", s)
	}
	b.await("document.querySelector('#rates-chart svg').getAttribute('aria-label').startsWith('Per second: accepted ')")
}

// replacePolicy puts another policy in the place of the present one, at once.
func (d *fleet) replacePolicy(text string) {
	d.t.Helper()
	next := d.policy + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.policy); err != nil {
		d.t.Fatal(err)
	}
}

// showsHistory: the last hours of one category, by keyboard.
func showsHistory(b *tab) {
	b.Helper()
	b.await("document.querySelector('#history-category').options.length === 4")
	b.tabTo("#history-category")
	b.press("drip")
	b.await("document.querySelector('#history-chart svg').getAttribute('aria-label').startsWith(" +
		"'drip, last 24h: accepted 4, delivered 4, ')")
}

// searches finds a notification and a user, and gives one that waits.
func searches(b *tab, d *fleet, r *receiver) string {
	b.Helper()
	ids := d.bulk(r.crowd("ada", "slow", 5))
	d.awaitStats("four deferred", func(s stats) bool { return s.Deferred == 4 && s.Totals.Delivered == 5 })
	b.look(ids[1])
	b.await("document.querySelector('#found-body svg').getAttribute('aria-label').endsWith('accepted, deferred')")
	b.await("document.querySelector('#found-body').textContent.includes('limit 1/1h')")
	b.screenshot("notification-1280")
	b.look("ada")
	b.await("document.querySelector('#found-body svg').getAttribute('aria-label') === 'Windows of ada in slow: 1 counted, 4 expected'")
	b.screenshot("user-1280")
	b.look("nobody-of-this-name")
	b.await("document.querySelector('#found-body').textContent.includes('No notification has this id')")
	return ids[4]
}

// pausesByKeyboard pauses a category and resumes it, without a mouse.
func pausesByKeyboard(b *tab) {
	b.Helper()
	b.tabTo("#subject")
	b.press("category slow", kb.Tab, "a test", kb.Tab, kb.Enter)
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.accessible("in the dialog")
	b.press(kb.Enter) // no
	b.await("!document.querySelector('#sure').open")
	b.tabTo("#pause button")
	b.press(kb.Enter)
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.press("shift+"+kb.Tab, kb.Enter) // yes
	b.await("document.querySelector('#pauses').textContent.includes('category slow is paused')")
	b.await("document.querySelector('#warnings').textContent.includes('Paused: category slow, by')")
	b.tabTo("#pauses button")
	b.press(kb.Enter)
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.press("shift+"+kb.Tab, kb.Enter)
	b.await("document.querySelector('#pauses').children.length === 0")
	b.await("document.querySelector('#audit').rows.length === 2 && document.querySelector('#audit').textContent.includes('a test')")
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
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.press("shift+"+kb.Tab, kb.Enter) // yes
	b.await("document.querySelector('#pauses').textContent.includes('category drip is paused')")
	b.tabTo("#pauses button")
	b.press(kb.Enter)
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.press("shift+"+kb.Tab, kb.Enter)
	b.await("document.querySelector('#pauses').children.length === 0")
}

// cancelsByKeyboard cancels a notification that waits.
func cancelsByKeyboard(b *tab, d *fleet, id string) {
	b.Helper()
	b.look(id)
	b.tabTo("#found-body .row button:last-child")
	b.press(kb.Enter)
	b.await("document.querySelector('#sure').open && document.activeElement.id === 'sure-no'")
	b.press("shift+"+kb.Tab, kb.Enter)
	b.await("document.querySelector('#found-body').textContent.includes('cancelled')")
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
	b := openTab(t, "http://"+process.OpsAddr()+"/")
	b.await("document.querySelector('#subject').options.length > 5")
	for i, want := range []string{"category slow", "category drip"} {
		b.tabTo("#subject")
		b.press(want, kb.Tab, kb.Tab, kb.Enter)
		b.await("document.querySelector('#sure').open")
		b.press("shift+"+kb.Tab, kb.Enter)
		if i == 0 {
			b.await("document.querySelector('#sure').open && document.activeElement.id === 'token'")
			b.press("open-sesame", kb.Enter)
		}
		b.await(fmt.Sprintf("document.querySelector('#pauses').textContent.includes('%s is paused')", want))
	}
	d.act(process, 401, ops.Action{Action: "resume", Kind: "category", Name: "slow"})
}
