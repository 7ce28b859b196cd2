package throttle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is everything that limits one key (for notifications: one category of one user). An admission counts under all
// of its rules, or under none. Limiters do not check a plan: see [Plan.Validate].
//
// A plan may change between two requests, and change back. Smaller limits and longer windows hold from the next
// decision on. A log remembers the largest Max and the longest Per that it was ever charged under, and forgets an
// admission only when no such rule can see it. So a rule that comes back finds everything that was admitted meanwhile.
// When nothing was admitted for the longest window, the log forgets rules and admissions together. A rule longer than
// any before begins with what is remembered.
type Plan struct {
	// Algorithm counts for the rules of [KindLimit]. Gaps and caps are always exact.
	Algorithm Algorithm
	// Rules are those of the category, then those of [KindCap], then those of each named cap. A decision's rule is an
	// index into them.
	Rules []Rule
	// Dormant are rules that are not in force but may come back at any time, such as the policy's while a user's own
	// limits replace them. They refuse nothing, and find everything that was admitted when they are back.
	Dormant []Rule
	// Shadow are rules of the category that refuse nothing either: of each admission it is told which of them would
	// have. Only a log shows that.
	Shadow []Rule
	// Closed is when nothing is admitted, whatever the rules say.
	Closed Closed
	// Boundaries are when the user's periods begin, for rules of the calendar.
	Boundaries Boundaries
	// Head is who asks. The agendas, whose plans are for all that waits, leave it out.
	Head Head
	// Spread is over how long the users begin again after a closed interval: for each it ends later by a part of that,
	// see [Plan.For].
	Spread time.Duration
}

// Head is the one that asks for an admission: the first of a backlog. The zero value sees all of every limit.
type Head struct {
	// Priority is 1 for the most urgent; 0 when it does not matter.
	Priority int
	// Channel is the one that it is for; empty when it is not known, see [Rule.CountsOn].
	Channel string
}

// moreArg writes head and boundaries in the form that a script reads; empty when there are none.
func (p Plan) moreArg() string {
	boundaries := p.Boundaries.arg()
	if p.Head == (Head{}) && boundaries == "" {
		return ""
	}
	return strconv.Itoa(p.Head.Priority) + "/" + p.Head.Channel + boundaries
}

// For is the plan of one user, for whom closed intervals end later by their part of the spread.
func (p Plan) For(user string) Plan {
	p.Closed, p.Spread = p.Closed.later(partOf(user, p.Spread)), 0
	return p
}

// CategoryRules are the rules that count the admissions of one category: its limits and its gap.
func (p Plan) CategoryRules() []Rule { return p.Rules[:p.caps()] }

// CapRules are the rules that count the admissions of all of a user's categories.
func (p Plan) CapRules() []Rule { return p.Rules[p.caps():p.from(KindNamed)] }

// NamedCaps are the rules of each named cap.
func (p Plan) NamedCaps() [][]Rule {
	var caps [][]Rule
	for _, r := range p.Rules[p.from(KindNamed):] {
		if last := len(caps) - 1; last >= 0 && caps[last][0].Cap == r.Cap {
			caps[last] = append(caps[last], r)
		} else {
			caps = append(caps, []Rule{r})
		}
	}
	return caps
}

// SharesCap reports whether some cap counts the admissions of both plans, for one user.
func (p Plan) SharesCap(o Plan) bool {
	return p.capped() && o.capped() || slices.ContainsFunc(p.Rules[p.from(KindNamed):], func(r Rule) bool {
		return slices.ContainsFunc(o.Rules[o.from(KindNamed):], func(other Rule) bool { return r.Cap == other.Cap })
	})
}

// CountsFor reports whether what goes by the plan counts for a named cap; no name means the user cap.
func (p Plan) CountsFor(name string) bool {
	if name == "" {
		return p.capped()
	}
	return slices.ContainsFunc(p.Rules[p.from(KindNamed):], func(r Rule) bool { return r.Cap == name })
}

// ByChannel reports whether some cap counts the admissions on some channels only.
func (p Plan) ByChannel() bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Channels != "" })
}

// caps is the index of the first rule that counts more than the category.
func (p Plan) caps() int { return p.from(KindCap) }

// from is the index of the first rule of a kind or of a later one.
func (p Plan) from(kind Kind) int {
	for i, r := range p.Rules {
		if r.Kind >= kind {
			return i
		}
	}
	return len(p.Rules)
}

// WithoutCaps returns the plan without the caps of some names; no name means the user cap.
func (p Plan) WithoutCaps(names []string) Plan {
	if len(names) > 0 {
		p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r Rule) bool {
			return r.Kind >= KindCap && slices.Contains(names, r.Cap)
		})
	}
	return p
}

// WithOwnLimits returns the plan of a user whose own limits replace the category's. All caps stay. The rules that are
// replaced become dormant, since the user may remove the own limits at any time. Own limits of the calendar make the
// plan [Rolling], since only a log can count by it: they were set before the policy gave the category another
// algorithm.
func (p Plan) WithOwnLimits(own []Rule) Plan {
	algorithm := p.Algorithm
	if slices.ContainsFunc(own, func(r Rule) bool { return r.Period > 0 }) {
		algorithm = Rolling
	}
	return Plan{
		Algorithm: algorithm, Rules: slices.Concat(own, p.Rules[p.caps():]),
		Dormant: slices.Concat(p.Dormant, p.CategoryRules()), Shadow: p.Shadow, Closed: p.Closed, Spread: p.Spread,
		Head: p.Head, Boundaries: p.Boundaries,
	}
}

// Overtakes reports whether a notification of a priority may go sooner than one that it comes before: some rule keeps a
// part for the priority, of which less urgent ones see less, or does not count what is on some channels.
func (p Plan) Overtakes(priority int) bool {
	return slices.ContainsFunc(p.Rules, func(r Rule) bool {
		return r.Channels != "" || r.MaxFor(priorities) < r.MaxFor(priority)
	})
}

// MaxNamedCaps is how many named caps a plan may have.
const MaxNamedCaps = 4

// Validate returns everything that is wrong with the plan: a rule out of its bounds, a rule before one that it has to
// follow, too many named caps, a cap in two parts or of two minds about its channels, a second gap, or two limits over
// the same window, of which only the smaller could have an effect.
func (p Plan) Validate() error {
	var faults []error
	if int(p.Algorithm) >= len(algorithms) {
		faults = append(faults, fmt.Errorf("algorithm %d is unknown", p.Algorithm))
	}
	first := make(map[Rule]int) // The place, from 1, of the first rule over a window, by kind and Per.
	for i, r := range p.Rules {
		place := i + 1
		if err := r.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("rule %d (%s): %w", place, r, err))
		}
		if i > p.caps() && r.Kind < KindCap {
			faults = append(faults, fmt.Errorf("rule %d (%s) must stand before the caps", place, r))
		}
		if i > p.from(KindNamed) && r.Kind == KindCap {
			faults = append(faults, fmt.Errorf("rule %d (%s) must stand before the named caps", place, r))
		}
		if (r.Reserve != (Reserve{}) || r.Period > 0) && r.Kind == KindLimit && !p.Algorithm.KeepsLog() {
			faults = append(faults, fmt.Errorf("rule %d (%s): only the algorithm %s has reserves and periods, not %s", place,
				r, Rolling, p.Algorithm))
		}
		class := Rule{Per: r.Per, Kind: r.Kind, Cap: r.Cap, Period: r.Period}
		fault := "have the same window: keep the smaller"
		if r.Kind == KindGap {
			class.Per, fault = 0, "are both a gap: keep the longer"
		}
		if other, taken := first[class]; taken {
			faults = append(faults, fmt.Errorf("rules %d and %d (%s, %s) %s", other, place, p.Rules[other-1], r, fault))
		} else {
			first[class] = place
		}
	}
	faults = append(faults, p.validateCaps(), p.Closed.Validate())
	return errors.Join(faults...)
}

// validateCaps refuses named caps that a limiter would not understand.
func (p Plan) validateCaps() error {
	var faults []error
	known := map[string]bool{}
	for _, rules := range p.NamedCaps() {
		name := rules[0].Cap
		if known[name] {
			faults = append(faults, fmt.Errorf("the rules of the cap %s must follow each other", name))
		}
		known[name] = true
		for _, r := range rules {
			if r.Channels != rules[0].Channels {
				faults = append(faults, fmt.Errorf("the rules of the cap %s must have the same channels", name))
			}
		}
	}
	if len(known) > MaxNamedCaps {
		faults = append(faults, fmt.Errorf("has %d named caps, may have %d", len(known), MaxNamedCaps))
	}
	return errors.Join(faults...)
}

// Equal reports whether both plans are the same.
func (p Plan) Equal(o Plan) bool {
	return p.Algorithm == o.Algorithm && slices.Equal(p.Rules, o.Rules) && slices.Equal(p.Dormant, o.Dormant) &&
		slices.Equal(p.Shadow, o.Shadow) &&
		p.Spread == o.Spread && p.Head == o.Head && p.Boundaries.Equal(o.Boundaries) && slices.Equal(p.Closed, o.Closed)
}

// dormantKind is the kind of dormant rules in the arguments of a script.
const dormantKind = int(KindNamed) + 1

// shadowKind is that of shadow rules.
const shadowKind = dormantKind + 1

// Args appends the plan in the form that the Lua function read_plan reads.
func (p Plan) Args(args []any) []any {
	args = append(args, algorithms[p.Algorithm].letter, strconv.Itoa(len(p.Rules)+len(p.Dormant)+len(p.Shadow)))
	for _, r := range p.Rules {
		args = r.args(args, int(r.Kind))
	}
	for _, r := range p.Dormant {
		r.Reserve, r.Period = Reserve{}, 0
		args = r.args(args, dormantKind)
	}
	for _, r := range p.Shadow {
		args = r.args(args, shadowKind)
	}
	return append(p.Closed.args(args, p.Spread), p.moreArg())
}

// argCount is how many arguments Args appends.
func (p Plan) argCount() int {
	return 5 + 3*(len(p.Rules)+len(p.Dormant)+len(p.Shadow)) + 2*len(p.Closed)
}

// counted reports whether the plan keeps state for its category.
func (p Plan) counted() bool { return p.caps()+len(p.Dormant)+len(p.Shadow) > 0 }

// capped reports whether the plan has a user cap, so that the log of its user counts.
func (p Plan) capped() bool { return len(p.CapRules()) > 0 }

// StateKey is the key of the windows of a user's category, with a prefix. Each algorithm has keys of its own, so a
// change of the algorithm starts anew instead of meeting a key of another type. A colon in the category is escaped: the
// name of a user must not make the key of another category.
func (p Plan) StateKey(prefix string, key Key) string {
	return prefix + algorithms[p.Algorithm].letter + ":" + escapeCategory(key.Category) + ":" + key.User
}

// escapeCategory writes a category without colons.
func escapeCategory(category string) string {
	if !strings.ContainsAny(category, ":%") {
		return category
	}
	return strings.ReplaceAll(strings.ReplaceAll(category, "%", "%25"), ":", "%3A")
}

// CapKey is the key of the log of a user's cap, with a prefix.
func CapKey(prefix string, key Key) string { return prefix + "u:" + key.User }

// NamedKey is the key of the log of a named cap of a user, with a prefix.
func NamedKey(prefix, name string, key Key) string { return prefix + "cap:" + name + ":" + key.User }

// IsWindow reports whether a key, without its prefix, is one of those of [Plan.StateKey], [CapKey] and [NamedKey].
func IsWindow(key string) bool {
	of, _, _ := strings.Cut(key, ":")
	return of == "u" || of == "cap" || slices.ContainsFunc(Algorithms(), func(a Algorithm) bool {
		return algorithms[a].letter == of
	})
}

// depth is how many admissions a log must remember for the rules, and for how long.
func depth(lists ...[]Rule) (admissions int, per time.Duration) {
	for _, rules := range lists {
		for _, r := range rules {
			admissions = max(admissions, r.Max)
			per = max(per, r.Per)
		}
	}
	return admissions, per
}

// depth is the depth of the log of the plan's category.
func (p Plan) depth() (admissions int, per time.Duration) {
	return depth(p.CategoryRules(), p.Dormant, p.Shadow)
}
