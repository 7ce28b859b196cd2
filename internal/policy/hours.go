package policy

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// QuietHours are when users are not to be disturbed, as a policy says it.
type QuietHours struct {
	// Window is the name of the window that is closed, Hours are those of the window.
	Window string
	Hours  calendar.Window
	// Spread is over how long users begin again after a closed stretch, so that not all do in one second. Defaults to
	// 10 minutes.
	Spread time.Duration
	// ExemptFrom is the least urgent priority that they do not hold for; 0 for none. Defaults to critical.
	ExemptFrom notification.Priority
	// Required is true when they hold beside a user's own, and not only for users who have none.
	Required bool
}

// DefaultTimeZone is the default of [Policy.TimeZone].
const DefaultTimeZone = "UTC"

// DefaultSpread is the default of [QuietHours.Spread].
const DefaultSpread = 10 * time.Minute

// longestSpread is the longest, of a window that is open for a whole day at a time.
const longestSpread = 12 * time.Hour

// Then is what becomes of a category's notifications in quiet hours.
type Then uint8

// What may become of them.
const (
	// Hold has them wait for the end.
	Hold Then = iota
	// Bundle has them wait for the end, and go as digests then.
	Bundle
	// Drop ends them as expired, with the reason quiet_hours.
	Drop
	// Passive lets them go, with the word to the provider not to disturb.
	Passive
	// Off lets them go as at any other time.
	Off
)

// thens are the names in a policy, by Then.
var thens = []string{"hold", "digest", "drop", "passive", "off"}

// String is the name in a policy.
func (t Then) String() string { return thens[t] }

// hoursReader reads time zones, windows and quiet hours.
type hoursReader struct{ *document }

// readTimeZone reads the name of a time zone.
func (d hoursReader) readTimeZone(e entry) string {
	text, ok := scalar(e.value)
	if !ok {
		d.add(e.value, e.name, "must be the name of a time zone, such as Europe/Vienna")
	} else if _, err := calendar.ParseZone(text); err != nil {
		d.add(e.value, e.name, "%v", err)
	}
	return text
}

// readWindows reads the windows by their names.
func (d hoursReader) readWindows(e entry) map[string]calendar.Window {
	entries, ok := d.entries(e.name, e.value)
	if !ok {
		return nil
	}
	windows := make(map[string]calendar.Window, len(entries))
	for _, e := range entries {
		path := join("windows", e.name)
		if !isCategoryName(e.name) {
			d.add(e.key, path, "a window's name must be 1 to %d of A-Z a-z 0-9 . _ -", MaxCategoryNameBytes)
		}
		windows[e.name] = d.readWindow(path, e.value)
	}
	return windows
}

func (d hoursReader) readWindow(path string, node ast.Node) calendar.Window {
	var window calendar.Window
	before := len(d.faults)
	fields, _ := d.fields(path, node, "closed", "open", "dates")
	if f, ok := fields["closed"]; ok {
		window.Closed = d.readRanges(join(path, "closed"), f.value)
	}
	if f, ok := fields["open"]; ok {
		window.Open = d.readRanges(join(path, "open"), f.value)
	}
	if f, ok := fields["dates"]; ok {
		window.Dates = readList(d.document, join(path, "dates"), f.value, "dates such as [2026-12-24]", d.readDate)
	}
	if len(d.faults) > before {
		return window
	}
	if err := window.Validate(); err != nil {
		d.add(node, path, "%v", err)
	}
	return window
}

// readList reads a list of things such as the example.
func readList[T any](d *document, path string, node ast.Node, example string, read func(string, ast.Node) T) []T {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.add(node, path, "must be a list of %s", example)
		return nil
	}
	if len(list.Values) > maxListed {
		d.add(node, path, "has %d entries, more than the %d that a list may have", len(list.Values), maxListed)
		return nil
	}
	var all []T
	for i, value := range list.Values {
		item := path + "[" + strconv.Itoa(i) + "]"
		if value = d.follow(item, value); value != nil {
			all = append(all, read(item, value))
		}
	}
	return all
}

// maxListed is how many ranges, dates or days a list may have.
const maxListed = 366

func (d hoursReader) readDate(path string, node ast.Node) calendar.Date {
	text, _ := scalar(node)
	date, err := calendar.ParseDate(text)
	if err != nil {
		d.add(node, path, "%v", err)
	}
	return date
}

func (d hoursReader) readRanges(path string, node ast.Node) []calendar.Range {
	return readList(d.document, path, node, `ranges such as [{days: mon-fri, from: "22:00", to: "08:00"}]`, d.readRange)
}

func (d hoursReader) readRange(path string, node ast.Node) calendar.Range {
	var r calendar.Range
	fields, ok := d.fields(path, node, "days", "from", "to")
	if !ok {
		return r
	}
	if f, ok := fields["days"]; ok {
		r.Days = d.readDays(join(path, "days"), f.value)
	}
	for name, clock := range map[string]*calendar.Clock{"from": &r.From, "to": &r.To} {
		f, ok := fields[name]
		if !ok {
			d.add(node, path, `needs %s, a time of day such as "22:00"`, name)
			continue
		}
		text, _ := scalar(f.value)
		var err error
		if *clock, err = calendar.ParseClock(text); err != nil {
			d.add(f.value, join(path, name), "%v", err)
		}
	}
	return r
}

// readDays reads mon-fri, or a list of such. It refuses a list of none, which would mean every day.
func (d hoursReader) readDays(path string, node ast.Node) calendar.Days {
	if _, ok := scalar(node); ok {
		return d.readWeekdays(path, node)
	}
	if list, ok := node.(*ast.SequenceNode); ok && len(list.Values) == 0 {
		d.add(node, path, "names no day; leave it out for every day")
	}
	var days calendar.Days
	for _, some := range readList(d.document, path, node, "weekdays such as mon-fri, or [sat, sun]", d.readWeekdays) {
		days |= some
	}
	return days
}

// readWeekdays reads mon-fri. It takes no list: through an alias, a list may lie in itself.
func (d hoursReader) readWeekdays(path string, node ast.Node) calendar.Days {
	text, ok := scalar(node)
	if !ok {
		d.add(node, path, "must be weekdays such as mon-fri")
		return 0
	}
	days, err := calendar.ParseDays(text)
	if err != nil {
		d.add(node, path, "%v", err)
	}
	return days
}

// readQuietHours reads when users are not to be disturbed, in one of the windows.
func (d hoursReader) readQuietHours(e entry, windows map[string]calendar.Window) *QuietHours {
	quiet := &QuietHours{Spread: DefaultSpread, ExemptFrom: notification.PriorityCritical}
	fields, ok := d.fields(e.name, e.value, "window", "spread", "exempt_priority", "required")
	if !ok {
		return nil
	}
	if f, ok := fields["window"]; ok {
		quiet.Window, _ = scalar(f.value)
		if quiet.Hours, ok = windows[quiet.Window]; !ok {
			names := slices.Sorted(maps.Keys(windows))
			d.add(f.value, "quiet_hours.window", "no window is named %s; windows has %s%s", nearest.Quote(quiet.Window),
				cmp.Or(nearest.List(names), "none"), nearest.Hint(quiet.Window, names))
		}
	} else {
		d.add(e.key, e.name, "needs window, the name of one of the windows")
	}
	at := e.key
	if f, ok := fields["spread"]; ok {
		at = f.value
		quiet.Spread = d.duration("quiet_hours.spread", f.value, 0, longestSpread)
	}
	if f, ok := fields["exempt_priority"]; ok {
		quiet.ExemptFrom = d.readPriority(entry{name: "quiet_hours.exempt_priority", key: f.key, value: f.value})
	}
	if f, ok := fields["required"]; ok {
		quiet.Required = d.flag("quiet_hours.required", f.value)
	}
	if most := quiet.Hours.ShortestOpen() / 2; len(d.faults) == 0 && quiet.Spread > most {
		d.add(at, "quiet_hours.spread", "must be at most %s, half of the shortest time that %s is open, is %s",
			formatDuration(most), quiet.Window, formatDuration(quiet.Spread))
	}
	return quiet
}

// readThen reads what becomes of a category's notifications in quiet hours.
func (d hoursReader) readThen(path string, e entry) Then {
	path = join(path, e.name)
	fields, ok := d.fields(path, e.value, "then")
	if !ok {
		return Hold
	}
	f, ok := fields["then"]
	if !ok {
		d.add(e.key, path, "needs then: %s", strings.Join(thens, ", "))
		return Hold
	}
	text, _ := scalar(f.value)
	for i, name := range thens {
		if text == name {
			return Then(i)
		}
	}
	d.add(f.value, join(path, "then"), "must be hold, digest, drop, passive or off, is %s%s", nearest.Quote(text),
		nearest.Hint(text, thens))
	return Hold
}
