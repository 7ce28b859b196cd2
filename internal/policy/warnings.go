package policy

import (
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// placed is a rule with its place in the file.
type placed struct {
	throttle.Rule

	path string
	node ast.Node
	per  string // as the file writes it
	// shadow says that the rule only counts what it would have had wait.
	shadow bool
}

// warn notes what a file may say and hardly means.
func (d *document) warn(node ast.Node, path, format string, args ...any) {
	before := len(d.faults)
	d.add(node, path, format, args...)
	d.warnings = append(d.warnings, d.faults[before:]...)
	d.faults = d.faults[:before]
}

// warnCategory warns of a category without any limit, of limits that never hold what bypasses them, of limits that may
// hold for longer than anything may wait, and of limits that never block. limits and caps are as the file has them.
func (d *document) warnCategory(path string, e entry, c Category, limits, caps []placed) {
	switch {
	case c.Bypass && len(limits) > 0:
		d.warn(limits[0].node, limits[0].path, "never holds anything back, because the category has bypass: true; "+
			"remove one of the two")
		return
	case !c.Bypass && len(limits)+len(caps) == 0 && !d.isCapped(c.Name):
		d.warn(e.key, path, "has no limit, and no user_cap holds it: its notifications go out as fast as they come")
	}
	d.warnImpatient(path, e, c, limits, caps)
	d.warnPointless(c.Plan.Algorithm, limits, caps)
}

// warnImpatient warns of each limit that, once full, may hold for longer than max_defer.
func (d *document) warnImpatient(path string, e entry, c Category, limits, caps []placed) {
	if c.Bypass {
		return
	}
	for _, rule := range limits {
		switch most := longestWait(c.Plan.Algorithm, rule.Rule); {
		case most <= c.MaxDefer:
		case rule.Kind == throttle.KindGap:
			d.warn(rule.node, rule.path, "is %s, longer than max_defer %s: a notification that comes right after another expires instead of going out", timespan.Text(rule.Per), timespan.Text(c.MaxDefer))
		default:
			d.warn(rule.node, rule.path, "holds for up to %s once it is full, longer than max_defer %s: notifications expire instead of going out; raise max_defer", timespan.Text(most), timespan.Text(c.MaxDefer))
		}
	}
	for _, of := range d.named {
		if slices.Contains(of.Categories, c.Name) {
			for _, rule := range of.Rules {
				caps = append(slices.Clip(caps), placed{Rule: rule, path: of.path})
			}
		}
	}
	for _, rule := range caps {
		if most := longestWait(throttle.Rolling, rule.Rule); most > c.MaxDefer {
			d.warn(e.key, path, "may wait for max_defer %s, and %s holds for up to %s once it is full: notifications expire instead of going out; raise max_defer", timespan.Text(c.MaxDefer), rule.path, timespan.Text(most))
		}
	}
}

// longestWait is how long a limit that is full holds the next one at most.
func longestWait(algorithm throttle.Algorithm, rule throttle.Rule) time.Duration {
	if rule.Kind == throttle.KindLimit && algorithm == throttle.TokenBucket {
		return rule.Per / time.Duration(rule.Max)
	}
	return rule.Per
}

// defaultMaxDefer is the max_defer of a category that has none of its own.
func (d *document) defaultMaxDefer(c Category) time.Duration {
	rules := c.Plan.Rules // the user cap among them
	for _, of := range d.named {
		if slices.Contains(of.Categories, c.Name) {
			rules = slices.Concat(rules, of.Rules)
		}
	}
	calendar := slices.ContainsFunc(rules, func(r throttle.Rule) bool { return r.Period > 0 })
	if !c.Bypass && (calendar || d.quiet && c.heldInQuietHours()) {
		return longDefaultMaxDefer
	}
	return DefaultMaxDefer
}

// warnPointless warns of each limit that another makes pointless. Of two that do so to each other the first counts.
func (d *document) warnPointless(algorithm throttle.Algorithm, limits, caps []placed) {
	for i, rule := range limits {
		for j, other := range append(slices.Clip(limits), caps...) {
			if i == j || !covers(algorithm, other.Rule, rule.Rule) ||
				i < j && covers(algorithm, rule.Rule, other.Rule) && other.Kind == rule.Kind {
				continue
			}
			d.warn(rule.node, rule.path, "never blocks anything: %s is stricter", other.path)
			break
		}
	}
}

// covers reports whether a limit blocks whenever another one would. A rolling window, like a gap or a cap, with room
// for no more in a time that is at least as long does. So does a gap that spreads the admissions so far that the other
// limit's window never fills. Windows and buckets of other algorithms admit more at their edges, and cover nothing;
// neither does a rule of the calendar, but for others over the same period.
func covers(algorithm throttle.Algorithm, strict, loose throttle.Rule) bool {
	if strict.Kind == throttle.KindLimit && !algorithm.KeepsLog() {
		return false
	}
	if strict.Period > 0 && loose.Period != strict.Period { // what it admits around a boundary is up to twice as much
		return false
	}
	if strict.Per >= loose.Per && leavesNoMore(strict, loose) {
		return true
	}
	return strict.Kind == throttle.KindGap && loose.Kind != throttle.KindCap &&
		spread(strict.Per, loose) <= loose.MaxFor(int(notification.PriorityLow))
}

// leavesNoMore reports whether a limit leaves no priority more than another one does.
func leavesNoMore(strict, loose throttle.Rule) bool {
	for p := notification.PriorityCritical; p <= notification.PriorityLow; p++ {
		if strict.MaxFor(int(p)) > loose.MaxFor(int(p)) {
			return false
		}
	}
	return true
}

// spread is how many admissions with a gap between them a rule's window holds at most.
func spread(gap time.Duration, rule throttle.Rule) int { return int((rule.Per + gap - 1) / gap) }
