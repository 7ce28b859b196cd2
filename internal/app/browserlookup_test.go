package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// failingThenRefusing is a provider that has no time at first, and then refuses for good.
func failingThenRefusing(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Pacer-Attempt") == "1" {
			http.Error(w, "overloaded, come back later", http.StatusServiceUnavailable)
			return
		}
		http.Error(w, strings.Repeat("no field recipient ", 20), http.StatusGone)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/hook?token=very-secret-part-of-the-address"
}

// unkind is a notification with everything that a page has trouble with.
func unkind(to string) item {
	return item{
		"id": strings.Repeat("long-id.", 7), "user_id": strings.Repeat("user", 60), "category": "default", "to": to,
		"title": "Your order <b>4711</b> is on its way " + strings.Repeat("W", 200),
		"body":  "Dear Ada,\n\nyour code is 4711.\n" + strings.Repeat("unbroken", 100) + strings.Repeat("\nline", 60),
		"data":  json.RawMessage(`{"order": 4711, "note": "` + strings.Repeat("0123456789", 60) + `"}`),
	}
}

// TestLookUpInABrowser looks at one notification as people do: from the list, by keyboard, by its address, on a phone.
func TestLookUpInABrowser(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, browserPolicy, 1)
	n := unkind(failingThenRefusing(t))
	id := d.bulk([]item{n})[0]
	d.awaitStats("it failed", func(s stats) bool { return s.Totals.Failed == 1 })

	b := openTab(t, "http://"+d.apps[0].OpsAddr()+"/list.html")
	b.Await("document.querySelector('#items').rows.length === 1 && document.querySelector('#items a') !== null")
	b.TabTo("#items td:last-child a")
	b.Press(kb.Enter)
	b.Await("(document.querySelector('#found-title')?.textContent ?? '').endsWith('" + id + "')")
	if at := eval[string](b, "location.pathname + location.search"); at != "/?q="+url.QueryEscape(id) {
		t.Errorf("the address is %s", at)
	}
	showsAttempts(b)
	showsContents(b, n)
	b.Everywhere("failed")

	// The address alone leads there, and a reload too.
	again := openTab(t, eval[string](b, "location.href"))
	again.Await("document.querySelector('#found-body table.attempts')?.rows.length === 3")
	if text := eval[string](again, "document.body.innerText"); strings.Contains(text, "very-secret") {
		t.Errorf("the page shows the target: %s", text)
	}
}

// showsAttempts: a row for each, with its time, how long it took, the outcome, the reply and the next attempt.
func showsAttempts(b *tab) {
	b.Helper()
	rows := eval[[][]string](b, `[...document.querySelectorAll('#found-body .attempts tbody tr')].map((r) =>
		[...r.cells].map((c) => c.textContent))`)
	if len(rows) != 2 || rows[0][0] != "1" || rows[0][3] != "retrying: transient: 503" ||
		!strings.Contains(rows[0][4], "overloaded, come back later") || !strings.HasSuffix(rows[0][5], " later") ||
		rows[1][0] != "2" || rows[1][3] != "failed: target_gone: 410" ||
		!strings.Contains(rows[1][4], "no field recipient") || rows[1][5] != "–" {
		b.Fatalf("the attempts are %q", rows)
	}
	for _, row := range rows {
		if !strings.HasSuffix(row[2], "s") {
			b.Errorf("it does not say how long the attempt took: %q", row)
		}
	}
	if text := eval[string](b, "document.querySelector('#found-body').textContent"); strings.Count(text, rows[1][4]) != 1 {
		b.Errorf("the reply is not shown once: %s", text)
	}
}

// showsContents: as they were given, with the target's host alone, and nothing of them becomes a part of the page.
func showsContents(b *tab, n item) {
	b.Helper()
	shown := eval[map[string]string](b, `Object.fromEntries([...document.querySelectorAll('#found-body .part dt')].map((name) =>
		[name.textContent, name.nextElementSibling.textContent]))`)
	var given, data bytes.Buffer
	raw, ok := n["data"].(json.RawMessage)
	if err := json.Compact(&given, raw); !ok || err != nil {
		b.Fatal(ok, err)
	}
	if err := json.Compact(&data, []byte(shown["data"])); err != nil {
		b.Errorf("the data are %q: %v", shown["data"], err)
	}
	if shown["to"] != "127.0.0.1/***" || shown["title"] != n["title"] || shown["body"] != n["body"] ||
		data.String() != given.String() {
		b.Errorf("the contents are %q", shown)
	}
}

// Contents need the token where one is set, and everything else does not.
func TestContentsInABrowserNeedTheToken(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, browserPolicy, 0)
	s := d.settings()
	s.OpsToken = "open-sesame"
	process := d.startWith(s)
	n := unkind(refusing(t))
	id := d.bulk([]item{n})[0]
	d.awaitStats("it failed", func(s stats) bool { return s.Totals.Failed == 1 })

	b := openTab(t, "http://"+process.OpsAddr()+"/?q="+url.QueryEscape(id))
	b.Await("document.querySelector('#found-body .attempts')?.rows.length === 2")
	text := eval[string](b, "document.querySelector('#found-body').innerText")
	if !strings.Contains(text, "Not shown: this needs the ops token (--ops-token, PACER_OPS_TOKEN).") || strings.Contains(text, "4711") {
		t.Errorf("without the token it shows %s", text)
	}
	b.TabTo("#found-body .part > button")
	b.Screenshot("lookup-withheld-1280")
	b.Press(kb.Enter)
	b.Await("document.querySelector('#sure').open && document.activeElement.id === 'token'")
	b.Press("open-sesame", kb.Enter)
	b.Await("document.querySelector('#found-body pre')?.textContent.includes('your code is 4711') ?? false")
	b.Quiet()
}
