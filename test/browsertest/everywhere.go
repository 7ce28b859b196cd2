package browsertest

import (
	"context"
	"fmt"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// outside lists what of a page is cut off: what stands outside the window, or outside of what holds it, unless one can
// scroll there.
const outside = `(() => {
	const found = []
	const all = document.documentElement.scrollWidth
	if (all > innerWidth) found.push('the page is ' + all + ' px wide')
	for (const e of document.querySelectorAll('header *, main *, footer *')) {
		const r = e.getBoundingClientRect(), box = e.parentElement.getBoundingClientRect()
		if (!r.width || !r.height || e.closest('svg, option, .skip, thead')) continue
		if (e.parentElement.closest('.scroll, pre')) continue
		if (r.right > innerWidth + 1 || r.left < -1 || r.right > box.right + 1 || r.left < box.left - 1)
			found.push(e.outerHTML.slice(0, 120) + ' from ' + Math.round(r.left) + ' to ' + Math.round(r.right) + ' px')
	}
	return found.slice(0, 5)
})()`

// Everywhere looks at the page on a phone, a tablet, a laptop and a large screen, in light and dark colours, and holds
// it to the rules of axe on the phone in the dark and on the laptop by day. The window is as Open made it afterwards.
func (b *Tab) Everywhere(name string) {
	b.Helper()
	for _, scheme := range []string{"dark", "light"} {
		media := emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}
		if err := chromedp.Do(b.Page, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
			return err
		})); err != nil {
			b.Fatal(err)
		}
		for _, width := range []int64{390, 768, 1920, 1280} {
			b.Resize(width, 900)
			when := fmt.Sprintf("%s-%s-%d", name, scheme, width)
			for _, found := range Eval[[]string](b, outside) {
				b.Errorf("%s: %s", when, found)
			}
			if (width == 390) == (scheme == "dark") && width != 768 && width != 1920 {
				b.Accessible(when)
				b.Screenshot(when)
			}
		}
	}
}
