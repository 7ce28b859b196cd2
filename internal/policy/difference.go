package policy

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Difference is a line about what limits notifications, in a category or in all of them, that one policy has and
// another has not.
type Difference struct {
	// Category is empty for what holds for all.
	Category string `json:"category,omitempty"`
	// Before and After say the same thing of the two policies; one of them is empty for a category or a window that
	// only the other names.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Differences reports how the limits of another policy differ from those of this one: first what holds for all, then by
// category.
func (p *Policy) Differences(after *Policy) []Difference {
	var all []Difference
	if before, after := p.common(), after.common(); before != after {
		all = append(all, Difference{Before: before, After: after})
	}
	all = append(all, p.windowDifferences(after)...)
	names := maps.Clone(p.Categories)
	maps.Copy(names, after.Categories)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if b, a := p.limitsOf(name), after.limitsOf(name); b != a {
			all = append(all, Difference{Category: name, Before: b, After: a})
		}
	}
	return all
}

// windowDifferences reports how the windows differ, by name. Each of them may be some user's own quiet hours.
func (p *Policy) windowDifferences(after *Policy) []Difference {
	var all []Difference
	names := map[string]calendar.Window{}
	maps.Copy(names, p.Windows)
	maps.Copy(names, after.Windows)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, had := p.Windows[name]
		a, has := after.Windows[name]
		switch {
		case !has:
			all = append(all, Difference{Before: "window " + name})
		case !had:
			all = append(all, Difference{After: "window " + name})
		case !reflect.DeepEqual(b, a):
			all = append(all, Difference{
				Before: "the hours of window " + name, After: "other hours of window " + name,
			})
		}
	}
	return all
}

// common says what holds for all categories.
func (p *Policy) common() string {
	said := []string{"time zone " + p.TimeZone}
	if q := p.QuietHours; q != nil {
		said = append(said, "quiet hours in window "+q.Window+", spread "+timespan.Text(q.Spread))
		if q.Required {
			said = append(said, "beside users' own")
		}
		if q.ExemptFrom != 0 {
			said = append(said, "exempt from "+q.ExemptFrom.String())
		}
	}
	if p.BypassPriority != 0 {
		said = append(said, p.BypassPriority.String()+" bypasses")
	}
	return strings.Join(said, ", ")
}

// limitsOf says what limits a category; nothing when the policy does not name it.
func (p *Policy) limitsOf(name string) string {
	c, ok := p.Categories[name]
	if !ok {
		return ""
	}
	var said []string
	for _, rule := range c.Plan.Rules {
		said = append(said, saidOf(rule))
	}
	if len(said) == 0 {
		said = append(said, "no limit")
	}
	for _, rule := range c.Plan.Shadow {
		said = append(said, saidOf(rule)+shadowOf(true))
	}
	if c.Plan.Algorithm != 0 {
		said = append(said, c.Plan.Algorithm.String())
	}
	if c.Bypass {
		said = append(said, "bypass")
	}
	if c.Quiet != Hold {
		said = append(said, "in quiet hours "+c.Quiet.String())
	}
	if len(c.Overflow) > 0 {
		said = append(said, "overflow "+overflowOf(c.Overflow))
	}
	return strings.Join(append(said, "max_defer "+timespan.Text(c.MaxDefer)), ", ")
}

// saidOf says everything that a rule holds. The name of a rule is too little: those of named caps and of periods say
// nothing of how many may go, so that no change of it would show.
func saidOf(r throttle.Rule) string {
	text := r.String()
	switch most := strconv.Itoa(r.Max) + "/" + r.Window(); {
	case r.Kind == throttle.KindNamed:
		text += " " + most
	case r.Kind == throttle.KindLimit && r.Period > 0:
		text = "limit " + most
	}
	if r.Channels != "" {
		text += " on " + r.Channels
	}
	return text + reserveOf(r)
}

// reserveOf says what a rule keeps for the urgent.
func reserveOf(r throttle.Rule) string {
	if r.Reserve == (throttle.Reserve{}) {
		return ""
	}
	var text strings.Builder
	text.WriteString(" with reserve")
	for i, kept := range r.Reserve {
		if kept > 0 {
			text.WriteString(" " + notification.Priority(i+1).String() + " " + strconv.Itoa(int(kept)))
		}
	}
	return text.String()
}

// shadowOf says of a rule that it only counts.
func shadowOf(shadow bool) string {
	if shadow {
		return " (shadow)"
	}
	return ""
}
