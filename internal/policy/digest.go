package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Digest is how what waits of a group in a category goes as one message: what has the user, the channel, the target and
// the group key in common.
type Digest struct {
	// Wait is how long the first of a group waits for company. Extend is how long nothing more of the group has to
	// come, within Max. At are times of the day, on Days. At most one of the three is set.
	Wait, Extend, Max time.Duration
	At                []calendar.Clock
	Days              calendar.Days
	// MaxItems is how many go as one at most. Defaults to [MaxDigestItems].
	MaxItems int
	// Shown is how many of them a message shows, the newest unless Oldest says otherwise. Defaults to 10.
	Shown  int
	Oldest bool
	// Except is the least urgent priority that goes alone; 0 for none. Defaults to high.
	Except notification.Priority
}

// MaxDigestItems is how many may go as one, and defaultShown how many of them are shown.
const MaxDigestItems, defaultShown = 100, 10

// DefaultDigest is that of a category that only names it.
func DefaultDigest() *Digest {
	return &Digest{MaxItems: MaxDigestItems, Shown: defaultShown, Except: notification.PriorityHigh}
}

// timing says when the digest goes, as the file writes it; "" when that is as soon as it may.
func (d *Digest) timing() string {
	switch {
	case d.Extend > 0:
		return " extend " + timespan.Text(d.Extend) + " max " + timespan.Text(d.Max)
	case d.Wait > 0:
		return " wait " + timespan.Text(d.Wait)
	case len(d.At) == 0:
		return ""
	}
	clocks := make([]string, len(d.At))
	for i, clock := range d.At {
		clocks[i] = clock.String()
	}
	return " at " + strings.Join(clocks, " ")
}

// maxDigestTimes is how many times of the day a digest may have.
const maxDigestTimes = 24

// digestReader reads digests.
type digestReader struct{ *document }

// readDigest reads how what waits in a category goes as one.
func (d digestReader) readDigest(path string, e entry) *Digest {
	path = join(path, e.name)
	fields, ok := d.fields(path, e.value, "wait", "extend", "max", "at", "days", "max_items", "show", "except")
	if !ok {
		return nil
	}
	digest := DefaultDigest()
	d.readTiming(path, e, fields, digest)
	if f, ok := fields["max_items"]; ok {
		digest.MaxItems = d.wholeNumber(join(path, "max_items"), f.value, 2, MaxDigestItems)
	}
	if f, ok := fields["show"]; ok {
		d.readShow(join(path, "show"), f.value, digest)
	}
	if f, ok := fields["except"]; ok {
		f.name = join(path, "except")
		digest.Except = d.readPriority(f)
	}
	return digest
}

// readTiming reads when digests go.
func (d digestReader) readTiming(path string, e entry, fields map[string]entry, digest *Digest) {
	var given []string
	for _, name := range []string{"wait", "extend", "at"} {
		if _, ok := fields[name]; ok {
			given = append(given, name)
		}
	}
	if len(given) > 1 {
		d.add(e.value, path, "has %s; a digest has one of wait, extend and at", strings.Join(given, " and "))
	}
	read := func(name string) (time.Duration, bool) {
		f, ok := fields[name]
		if !ok {
			return 0, false
		}
		return d.duration(join(path, name), f.value, time.Millisecond, MaxWait), true
	}
	digest.Wait, _ = read("wait")
	extends, bounded := false, false
	digest.Extend, extends = read("extend")
	digest.Max, bounded = read("max")
	switch {
	case extends && !bounded:
		d.add(fields["extend"].value, join(path, "extend"), "needs max: without it, a group that something always joins never goes")
	case bounded && !extends:
		d.add(fields["max"].value, join(path, "max"), "bounds extend, which is missing")
	case extends && digest.Max < digest.Extend:
		d.add(fields["max"].value, join(path, "max"), "is %s, shorter than extend %s", timespan.Text(digest.Max),
			timespan.Text(digest.Extend))
	}
	if f, ok := fields["at"]; ok {
		digest.At = readList(d.document, join(path, "at"), f.value, `times such as ["09:00", "18:00"]`, d.readClock)
		if len(digest.At) == 0 || len(digest.At) > maxDigestTimes {
			d.add(f.value, join(path, "at"), "must have 1 to %d times", maxDigestTimes)
		}
		slices.Sort(digest.At)
	}
	if f, ok := fields["days"]; ok {
		if digest.Days = hoursReader(d).readDays(join(path, "days"), f.value); len(digest.At) == 0 {
			d.add(f.value, join(path, "days"), "are those of at, which is missing")
		}
	}
}

func (d digestReader) readClock(path string, node ast.Node) calendar.Clock {
	text, _ := scalar(node)
	clock, err := calendar.ParseClock(text)
	if err != nil {
		d.add(node, path, "%v", err)
	}
	return clock
}

// readShow reads which of a digest's notifications a message shows.
func (d digestReader) readShow(path string, node ast.Node, digest *Digest) {
	fields, _ := d.fields(path, node, "items", "which")
	if f, ok := fields["items"]; ok {
		digest.Shown = d.wholeNumber(join(path, "items"), f.value, 1, MaxDigestItems)
	}
	if f, ok := fields["which"]; ok {
		text, _ := scalar(f.value)
		if digest.Oldest = text == "oldest"; !digest.Oldest && text != "newest" {
			d.add(f.value, join(path, "which"), "must be newest or oldest, is %s%s", nearest.Quote(text),
				nearest.Hint(text, []string{"newest", "oldest"}))
		}
	}
}

// checkDigest refuses a digest that can't be, and warns of one that can hardly be meant.
func (d digestReader) checkDigest(path string, e entry, c Category) {
	path = join(path, e.name)
	switch waits := max(c.Digest.Wait, c.Digest.Max); {
	case c.Bypass:
		d.add(e.key, path, "never takes anything along, because the category has bypass: true; remove one of the two")
	case waits >= c.MaxDefer:
		d.add(e.value, path, "waits for up to %s, and nothing may wait for longer than max_defer %s", timespan.Text(waits),
			timespan.Text(c.MaxDefer))
	}
}

// warnNightly warns of times of digests in quiet hours, in which nothing goes.
func (d digestReader) warnNightly(p *Policy, categories entry) {
	entries, _ := d.entries(categories.name, categories.value)
	for _, e := range entries {
		c := p.Categories[e.name]
		if c.Digest == nil || p.QuietHours == nil || c.Quiet == Off || c.Quiet == Passive {
			continue
		}
		for _, clock := range c.Digest.At {
			if p.QuietHours.Hours.ClosedAt(clock, c.Digest.Days) {
				d.warn(e.value, join(join(join("categories", e.name), "digest"), "at"),
					"has %s, when quiet hours hold: the digest goes when they end", clock)
			}
		}
	}
}
