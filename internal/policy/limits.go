package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

func (d *document) readLimits(path string, node ast.Node, kind throttle.Kind) []placed {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.add(node, path, "must be a list of limits such as [{max: 10, per: 1m}]")
		return nil
	}
	if len(list.Values) > MaxLimits {
		d.add(node, path, "has %d limits, more than the %d that one list may have", len(list.Values), MaxLimits)
		return nil
	}
	var rules []placed
	for i, value := range list.Values {
		item := path + "[" + strconv.Itoa(i) + "]"
		if value = d.follow(item, value); value != nil {
			rules = append(rules, d.readLimit(item, value, kind))
		}
	}
	return rules
}

// merged are the rules of a list. Of two limits over the same window only the smaller has an effect, and the limiter
// takes no more than one.
func merged(all []placed) []throttle.Rule {
	var rules []throttle.Rule
	for _, rule := range all {
		over := func(r throttle.Rule) bool { return r.Per == rule.Per && r.Period == rule.Period }
		if i := slices.IndexFunc(rules, over); i >= 0 {
			rules[i] = stricter(rules[i], rule.Rule)
		} else {
			rules = append(rules, rule.Rule)
		}
	}
	return rules
}

// stricter is the rule that holds both of two over the same window, for each priority.
func stricter(a, b throttle.Rule) throttle.Rule {
	var seen [notification.PriorityLow]int
	for i := range seen {
		seen[i] = min(a.MaxFor(i+1), b.MaxFor(i+1))
	}
	return a.WithMaxFor(seen)
}

func (d *document) readLimit(path string, node ast.Node, kind throttle.Kind) placed {
	rule := placed{Rule: throttle.Rule{Kind: kind}, path: path, node: node}
	fields, ok := d.fields(path, node, "max", "per", "reserve", "shadow")
	if !ok {
		return rule
	}
	if f, ok := fields["max"]; ok {
		rule.Max = d.wholeNumber(join(path, "max"), f.value, 1, throttle.MaxMax)
	} else {
		d.add(node, path, "needs max, how many notifications may go out")
	}
	if f, ok := fields["per"]; ok {
		rule.Per, rule.Period = d.per(join(path, "per"), f.value)
		rule.per, _ = scalar(f.value)
	} else {
		d.add(node, path, "needs per, the length of the window")
	}
	if f, ok := fields["reserve"]; ok {
		rule.Reserve = d.readReserve(join(path, "reserve"), f, rule.Max)
	}
	if f, ok := fields["shadow"]; ok {
		if rule.shadow = d.flag(join(path, "shadow"), f.value); rule.shadow && kind != throttle.KindLimit {
			d.add(f.key, join(path, "shadow"), "only a limit of a category can be a shadow")
		}
	}
	return rule
}

// shadows takes the shadow rules out of a list.
func shadows(all []placed) (rules []placed, shadow []throttle.Rule) {
	for _, rule := range all {
		if rule.shadow {
			shadow = append(shadow, rule.Rule)
		} else {
			rules = append(rules, rule)
		}
	}
	return rules, shadow
}

// readReserve reads how many of a limit's max are kept for the urgent, by priority.
func (d *document) readReserve(path string, e entry, most int) throttle.Reserve {
	var reserve throttle.Reserve
	entries, ok := d.entries(path, e.value)
	if !ok {
		return reserve
	}
	kept, faults := 0, len(d.faults)
	for _, e := range entries {
		priority, known := notification.ParsePriority(e.name)
		switch {
		case !known:
			d.add(e.key, join(path, e.name), "is not a priority; a reserve is for critical, high or normal%s",
				nearest.Hint(e.name, []string{"critical", "high", "normal"}))
			continue
		case priority == notification.PriorityLow:
			d.add(e.key, join(path, e.name), "keeps nothing, since nothing is less urgent than low; "+
				"a reserve is for critical, high or normal")
			continue
		}
		n := d.wholeNumber(join(path, e.name), e.value, 1, throttle.MaxMax)
		reserve[priority-1] = int32(n)
		kept += n
	}
	if len(d.faults) == faults && most > 0 && kept >= most {
		d.add(e.key, path, "keeps %d of max %d, which leaves none for the less urgent; it may keep at most %d in all",
			kept, most, most-1)
		return throttle.Reserve{}
	}
	return reserve
}

// checkAlgorithm refuses reserves and periods in a category whose algorithm does not know when it counted what.
func (d *document) checkAlgorithm(algorithm throttle.Algorithm, limits []placed) {
	for _, rule := range limits {
		if rule.shadow && !algorithm.KeepsLog() {
			d.add(rule.node, join(rule.path, "shadow"), "only the algorithm %s can tell what a shadow would have had wait, and the category has %s",
				throttle.Rolling, algorithm)
		}
		if rule.Period > 0 && !algorithm.KeepsLog() {
			d.add(rule.node, join(rule.path, "per"), "only the algorithm %s can count in a %s, and the category has %s",
				throttle.Rolling, rule.Period, algorithm)
		}
		if rule.Reserve != (throttle.Reserve{}) && !algorithm.KeepsLog() {
			d.add(rule.node, join(rule.path, "reserve"), "only the algorithm %s can keep a reserve, and the category has %s",
				throttle.Rolling, algorithm)
		}
	}
}

// per reads the length of a window, or a period of the calendar.
func (d *document) per(path string, node ast.Node) (time.Duration, throttle.Period) {
	if text, ok := scalar(node); ok {
		if period, known := throttle.ParsePeriod(text); known {
			return period.Longest(), period
		}
		if _, err := ParseDuration(text); err != nil {
			d.add(node, path, "must be a duration such as 500ms, 3s, 1m, 24h or 1d, or day, week or month; is %s",
				nearest.Quote(text))
			return throttle.MinPer, 0
		}
	}
	return d.window(path, node), 0
}

// window reads a duration that the limiter can hold exactly.
func (d *document) window(path string, node ast.Node) time.Duration {
	value := d.duration(path, node, throttle.MinPer, throttle.MaxPer)
	if value%time.Microsecond != 0 {
		d.add(node, path, "must be whole microseconds, is %s", value)
	}
	return value
}
