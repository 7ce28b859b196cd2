package browsertest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/pacer-notify/pacer/test/browsertest"
)

// TestTab does with a small page what the tests of pages do.
func TestTab(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="data:,">
			<main><h1>A page</h1><p id="said">nothing</p><label>Name <input id="name"></label>
			<label>Of <select id="of"><option>all<option>category slow<option>channel log<option>channel</select></label>
			<button id="say" onclick="said.textContent = document.querySelector('#name').value + ', ' + of.value">Say</button>
			</main>`))
	}))
	t.Cleanup(server.Close)
	b := browsertest.Open(t, 400, 300)
	b.Navigate(server.URL)
	b.TabTo("#name")
	b.Press("hello", kb.Tab)
	for _, label := range []string{"channel", "category slow", "channel log"} {
		b.Choose(label)
	}
	b.Press(kb.Tab, kb.Enter)
	b.Await(`document.querySelector("#said").textContent === "hello, channel log"`)
	if width := browsertest.Eval[int](b, "innerWidth"); width != 400 {
		t.Errorf("the tab is %d wide, want 400", width)
	}
	b.Accessible("as it is")
	b.Screenshot("page")
	b.Quiet()
}

// What a script adds later can be awaited before it is there: by an expression that is undefined until then, by one
// that fails, and by one that has a value other than true.
func TestAwaitWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	b := browsertest.Open(t, 400, 300)
	b.Navigate("about:blank")
	for _, expression := range []string{
		`document.querySelector("#late")?.textContent.startsWith("late")`,
		`document.querySelector("#late").textContent === "later"`,
		`document.querySelector("#late") !== null || "not yet"`,
	} {
		browsertest.Eval[bool](b, `document.querySelector("#late")?.remove(), setTimeout(
			() => document.body.insertAdjacentHTML("beforeend", "<p id=late>later</p>"), 200) > 0`)
		b.Await(expression)
		if !browsertest.Eval[bool](b, `document.querySelector("#late") !== null`) {
			t.Errorf("%s was true before it was there", expression)
		}
	}
	b.Quiet()
}

// A page complains when a file that it is made of is refused, and not when a store was too slow for what it reads.
func TestComplaints(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="data:,">
			<script type="module">
				await fetch("snapshot"); await fetch("lookup/ada.txt")
				document.body.append(Object.assign(document.createElement("script"), { src: "app.js" }))
			</script>`))
	}))
	t.Cleanup(server.Close)
	b := browsertest.Open(t, 400, 300)
	b.Navigate(server.URL)
	for began := time.Now(); len(b.Complaints()) == 0 && time.Since(began) < browsertest.Patience; {
		<-time.After(20 * time.Millisecond)
	}
	if got := b.Complaints(); len(got) != 1 || !strings.HasSuffix(got[0], server.URL+"/app.js") {
		t.Errorf("the complaints are %q, want the one about app.js", got)
	}
}
