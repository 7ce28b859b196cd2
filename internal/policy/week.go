package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// DescribeHours writes the week of each window as a person reads it, and whom quiet hours concern; "" without windows.
func (p *Policy) DescribeHours() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Windows)) {
		quiet := p.QuietHours != nil && p.QuietHours.Window == name
		use := "used by users' own quiet hours only"
		if quiet {
			use = "the quiet hours"
		}
		fmt.Fprintf(&text, "\nWindow %s, %s, by each user's clock:\n", name, use)
		text.WriteString(describeWeek(p.Windows[name]))
		if quiet {
			p.describeQuiet(&text)
		}
	}
	return text.String()
}

// describeWeek writes when a window is closed on each day. Days in a row with the same hours share a line.
func describeWeek(w calendar.Window) string {
	var text strings.Builder
	for day := range 7 {
		first, hours := day, hoursOn(w, day)
		if day > 0 && hoursOn(w, day-1) == hours {
			continue
		}
		for day < 6 && hoursOn(w, day+1) == hours {
			day++
		}
		name := dayName(first)
		if day > first {
			name += "-" + dayName(day)
		}
		fmt.Fprintf(&text, "  %-8s%s\n", name, hours)
	}
	var dates []string
	for _, date := range w.Dates {
		dates = append(dates, date.Weekday().String()[:3]+" "+date.String())
	}
	if len(dates) > 0 {
		fmt.Fprintf(&text, "  closed all day on %s\n", strings.Join(dates, ", "))
	}
	return text.String()
}

// dayName names a day of a week that begins on Monday.
func dayName(day int) string { return weekday(day).String()[:3] }

func weekday(day int) time.Weekday { return time.Weekday((day + 1) % 7) }

// hoursOn says when a window is closed on a day of a week that begins on Monday.
func hoursOn(w calendar.Window, day int) string {
	var ranges []string
	for _, r := range w.ClosedOn(weekday(day)) {
		ranges = append(ranges, r.String())
	}
	switch {
	case len(ranges) == 0:
		return "open all day"
	case ranges[0] == "00:00-24:00":
		return "closed all day"
	}
	return "closed " + strings.Join(ranges, " and ")
}

// thenWords say what becomes of a category in quiet hours.
var thenWords = []string{ //nolint:gosec // what it takes for a credential is a word
	Hold: "wait for their end", Bundle: "wait for their end, and go as one message then", Drop: "end as expired, reason quiet_hours", Passive: "go at once, and do not disturb",
	Off: "go as always",
}

// describeQuiet says in which zone quiet hours hold, what becomes of each category, and how they end.
func (p *Policy) describeQuiet(text *strings.Builder) {
	quiet := p.QuietHours
	zone := "Users without a time zone have " + p.TimeZone + "."
	if quiet.Required {
		zone += " It holds beside a user's own hours."
	} else {
		zone += " A user's own hours replace it."
	}
	fmt.Fprintf(text, "%s\nIn quiet hours:\n", zone)
	names := map[string][]string{}
	for name, c := range p.Categories {
		words := thenWords[c.Quiet]
		if c.Bypass {
			words = thenWords[Off]
		}
		names[words] = append(names[words], name)
	}
	for _, words := range thenWords {
		if len(names[words]) > 0 {
			slices.Sort(names[words])
			fmt.Fprintf(text, "  %s: %s\n", words, strings.Join(names[words], ", "))
		}
	}
	if exempt := quiet.ExemptFrom; exempt > 0 {
		fmt.Fprintf(text, "  go out as always, whatever their category: priority %s\n", describeFrom(exempt))
	}
	if quiet.Spread > 0 {
		fmt.Fprintf(text, "When they end, each user's notifications start again at a moment of that user's own, within %s.\n",
			timespan.Text(quiet.Spread))
	} else {
		text.WriteString("When they end, all users' notifications start again at once.\n")
	}
}

// describeFrom names the priorities from the most urgent down to one.
func describeFrom(least notification.Priority) string {
	var names []string
	for p := notification.PriorityCritical; p <= least; p++ {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

// checkPatience refuses quiet hours that nothing can outlast within its max_defer, week after week, and warns of each
// category that can't outlast them, on dates either.
func (d *document) checkPatience(p *Policy, at, categories entry) {
	hours := p.QuietHours.Hours
	weekly, longest := calendar.Window{Closed: hours.Closed, Open: hours.Open}.LongestClosed(), hours.LongestClosed()
	entries, _ := d.entries(categories.name, categories.value)
	held, most := 0, time.Duration(0)
	for _, c := range p.Categories {
		if c.heldInQuietHours() {
			held++
			most = max(most, c.MaxDefer)
		}
	}
	if held > 0 && most < weekly {
		d.add(at.key, at.name, "%s is closed for up to %s, and no category may wait for longer than %s: whatever arrives just as it closes always expires; raise max_defer, or set quiet_hours: {then: drop} in the categories that may",
			p.QuietHours.Window, timespan.Text(weekly), timespan.Text(most))
		return
	}
	for _, e := range entries {
		c := p.Categories[e.name]
		if whole := longest + p.QuietHours.Spread; c.heldInQuietHours() && c.MaxDefer < whole {
			d.warn(e.key, join("categories", e.name), "may wait for max_defer %s, and %s is closed for up to %s, spread included: notifications that come early in it expire; raise max_defer, or set quiet_hours: {then: drop}",
				timespan.Text(c.MaxDefer), p.QuietHours.Window, timespan.Text(whole))
		}
	}
}

// heldInQuietHours reports whether the category's notifications wait for the end of quiet hours.
func (c Category) heldInQuietHours() bool { return !c.Bypass && c.Quiet <= Bundle }
