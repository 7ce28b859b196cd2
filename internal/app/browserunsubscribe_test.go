package app_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/pacer-notify/pacer/internal/feedback"
	"github.com/pacer-notify/pacer/test/redistest"
)

// TestUnsubscribingInABrowser goes both ways with the keyboard, without JavaScript and on a phone's screen.
func TestUnsubscribingInABrowser(t *testing.T) {
	t.Parallel()
	keys, err := feedback.NewKeys(strings.Repeat("k", feedback.MinKey))
	if err != nil {
		t.Fatal(err)
	}
	d := newDeploymentOn(t, onRedis, redistest.URL(t))
	d.writePolicy(crowdPolicy)
	s := d.settings()
	s.Keys = keys
	d.startWith(s)
	link := "http://" + d.apps[0].Addr() + feedback.Path +
		keys.LinkToken(feedback.Link{UserID: "ada", Category: "a-category-with-a-long-name"})
	b := openTab(t, "about:blank")
	wants := func(opted bool) {
		t.Helper()
		var p struct {
			OptOut struct{ Categories []string } `json:"opt_out"`
		}
		if status := d.call(http.MethodGet, "/v1/users/ada/preferences", nil, nil, &p); status != http.StatusOK ||
			(len(p.OptOut.Categories) == 1) != opted {
			t.Errorf("status %d, the preferences are %+v, want opted out %t", status, p, opted)
		}
	}
	withoutScripts := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
	b.Resize(320, 640)
	if err := chromedp.Do(b.Page, withoutScripts, chromedp.Navigate(link)); err != nil {
		t.Fatal(err)
	}
	b.Await(`document.title.startsWith("Unsubscribe from")`)
	wants(false)
	for _, step := range []struct {
		title string
		opted bool
	}{{"You will get no more", true}, {"You are subscribed", false}, {"You will get no more", true}} {
		if width := eval[int](b, "document.documentElement.scrollWidth"); width > 320 {
			t.Errorf("the page is %d wide before %q", width, step.title)
		}
		b.TabTo("button")
		b.Press(kb.Enter)
		b.Await(`document.title.startsWith("` + step.title + `")`)
		wants(step.opted)
		b.Screenshot(step.title)
	}
	if err := chromedp.Do(b.Page, chromedp.Navigate(link)); err != nil {
		t.Fatal(err)
	}
	b.Await(`document.title.startsWith("You will get no more")`) // also who comes back sees where it stands
	for _, url := range []string{link, link[:len(link)-1]} {     // axe needs scripts
		page := openTab(t, url)
		page.Accessible(eval[string](page, "document.title"))
	}
}
