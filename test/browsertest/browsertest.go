// Package browsertest drives pages in Chromium, which `make install-servers` installs, as people do: by keyboard.
package browsertest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience bounds every wait; it is only reached when something is broken.
const patience = 5 * time.Minute

// Tab is a page in a real browser. What goes wrong fails the test.
type Tab struct {
	*testing.T
	// Page is the context for [chromedp.Do] and the like.
	Page context.Context //nolint:containedctx // it is how chromedp names a page

	mu         sync.Mutex
	complaints []string
}

// Open opens a tab of so many pixels without a page. It ends with the test.
func Open(t *testing.T, width, height int64) *Tab {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.Flag("disable-dev-shm-usage", true)}
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root has none of
	}
	page, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(options...),
		chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		_ = chromedp.Cancel(page) // it ends with the test in any case
		cancel()
	})
	b := &Tab{T: t, Page: page}
	messages := chromedp.Console(page)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type != "log" && m.Type != "info" && m.Type != "debug" && !storeIsSlow(m) {
				b.mu.Lock()
				b.complaints = append(b.complaints, m.String()+" "+m.URL)
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cancel(); listening.Wait() })
	if err := chromedp.Do(page, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("open Chromium: %v; make install-servers installs it", err)
	}
	return b
}

// Resize makes the tab as wide and high as this, in pixels.
func (b *Tab) Resize(width, height int64) {
	b.Helper()
	if err := chromedp.Do(b.Page, chromedp.EmulateViewport(width, height)); err != nil {
		b.Fatal(err)
	}
}

// Navigate opens a page.
func (b *Tab) Navigate(url string) {
	b.Helper()
	if err := chromedp.Do(b.Page, chromedp.Navigate(url)); err != nil {
		b.Fatalf("open %s: %v", url, err)
	}
}

// Eval evaluates JavaScript in the page.
func Eval[T any](b *Tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.Page, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// Await waits until an expression is true. One that is undefined is not true yet, and neither is one that needs what
// is not there yet, which JavaScript calls a TypeError. All else that is wrong with it fails the test at once.
func (b *Tab) Await(expression string) {
	b.Helper()
	attempt := fmt.Sprintf(`(() => {
		try { return (%s) === true ? "true" : "not true" }
		catch (e) { if (e instanceof TypeError) return String(e); throw e }
	})()`, expression)
	deadline := time.Now().Add(patience)
	for {
		said := Eval[string](b, attempt)
		if said == "true" {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("never true: %s (%s); the page says %s", expression, said,
				Eval[string](b, "document.body.innerText"))
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Press presses keys, one after the other.
func (b *Tab) Press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		var options []chromedp.KeyOption
		if rest, shifted := strings.CutPrefix(key, "shift+"); shifted {
			key, options = rest, append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		if err := chromedp.Do(b.Page, chromedp.KeyEvent(key, options...)); err != nil {
			b.Fatalf("press %q: %v", key, err)
		}
	}
}

// TabTo presses Tab until what a selector finds has the focus.
func (b *Tab) TabTo(selector string) {
	b.Helper()
	for range 400 { // a list has some two hundred links
		if Eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		b.Press(kb.Tab)
	}
	b.Fatalf("%s can't be reached with the Tab key", selector)
}

// Choose chooses an option of the list that has the focus, by its label, with the arrow keys. Labels can't be typed:
// when a letter comes late, a list has forgotten those before.
func (b *Tab) Choose(label string) {
	b.Helper()
	place := fmt.Sprintf("[...document.activeElement.options].findIndex((o) => o.label === %q)", label)
	for range 100 {
		chosen, want := Eval[int](b, "document.activeElement.selectedIndex"), Eval[int](b, place)
		switch {
		case want < 0:
			b.Fatalf("the list has no option %q", label)
		case chosen == want:
			return
		case chosen < want:
			b.Press(kb.ArrowDown)
		default:
			b.Press(kb.ArrowUp)
		}
	}
	b.Fatalf("%q can't be chosen with the arrow keys", label)
}

// Screenshot keeps a picture of the whole page for people, with -artifacts.
func (b *Tab) Screenshot(name string) {
	b.Helper()
	if wanted := flag.Lookup("test.artifacts"); wanted == nil || wanted.Value.String() != "true" {
		return // it would be thrown away
	}
	picture, err := chromedp.Run(b.Page, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.ArtifactDir(), name+".png"), picture, 0o600)
	}
	if err != nil {
		b.Errorf("screenshot %s: %v", name, err)
	}
}

// refused is what the console says of a request that a page refused with 503.
const refused = "Failed to load resource: the server responded with a status of 503 (Service Unavailable)"

// aFile matches the path of a page, or of a file that it is made of. Nothing of these comes from a store.
var aFile = regexp.MustCompile(`^/([a-z]+\.[a-z]+)?$`)

// storeIsSlow reports whether a message only says that a store was too slow for what a page reads, which the page then
// says and reads again.
func storeIsSlow(m chromedp.ConsoleMessage) bool {
	address, err := url.Parse(m.URL)
	return err == nil && m.Text == refused && address.Path != "" && (!aFile.MatchString(address.Path) || address.Query().Has("q"))
}

// Complaints are the warnings and errors that the console had so far, but for what was too slow.
func (b *Tab) Complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}

// Quiet wants that there are no [Tab.Complaints].
func (b *Tab) Quiet() {
	b.Helper()
	for _, complaint := range b.Complaints() {
		b.Errorf("the console says %s", complaint)
	}
}
