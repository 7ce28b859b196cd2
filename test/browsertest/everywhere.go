package browsertest

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// cutOff lists what of a page is cut off, or stands outside the window or its section, unless one can scroll there.
const cutOff = `(() => {
	const found = [...document.querySelectorAll('body *')].filter((e) => {
		if (!(e instanceof HTMLElement) || !e.checkVisibility() || e.closest('.skip, thead')) return false
		if (/^(INPUT|SELECT|OPTION)$/.test(e.tagName)) return false
		const style = getComputedStyle(e), scrolls = e.parentElement.closest('.scroll, pre')
		if (style.display !== 'inline' && e.scrollWidth > e.clientWidth + 1 && !/auto|scroll/.test(style.overflowX)) {
			if (style.overflowX !== 'visible' || !scrolls && !e.children.length) return true
		}
		if (innerWidth > 1000 && e.matches('.scroll') && e.scrollWidth > e.clientWidth + 1) return true // there is room
		const holder = (e.closest('section') ?? document.body).getBoundingClientRect()
		return !scrolls && e.getBoundingClientRect().right > Math.min(innerWidth, holder.right) + 1
	}).map((e) => e.tagName + '#' + e.id + '.' + e.className + ' ' + e.textContent.slice(0, 60))
	const all = document.documentElement.scrollWidth
	return all > innerWidth ? ['the page is ' + all + ' px wide', ...found.slice(0, 5)] : found.slice(0, 5)
})()`

// drawn waits until charts are drawn for a new width.
const drawn = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`

// Everywhere looks at the page on a phone at night, and by day on a tablet, a large screen and a laptop: so it stays.
// Phone and laptop are held to the rules of axe.
func (b *Tab) Everywhere(name string) {
	b.Helper()
	for _, look := range []struct {
		scheme string
		width  int64
		axe    bool
	}{{"dark", 390, true}, {"light", 768, false}, {"light", 1920, false}, {"light", 1280, true}} {
		b.wear(look.scheme, look.width)
		when := fmt.Sprintf("%s-%s-%d", name, look.scheme, look.width)
		Eval[bool](b, drawn)
		for _, found := range Eval[[]string](b, cutOff) {
			b.Errorf("%s: cut off: %s", when, found)
		}
		if look.axe {
			b.Accessible(when)
			b.Screenshot(when)
		}
	}
}

// wear has the page in light or dark colours, at a width.
func (b *Tab) wear(scheme string, width int64) {
	b.Helper()
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}
	if err := chromedp.Do(b.Page, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return err
	}), chromedp.EmulateViewport(width, 900)); err != nil {
		b.Fatal(err)
	}
}
