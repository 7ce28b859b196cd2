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
	// Rules are those of the category, then those of [KindCap]. A decision's rule is an index into them.
	Rules []Rule
	// Dormant are rules that are not in force but may come back at any time, such as the policy's while a user's own
	// limits replace them. They refuse nothing, and find everything that was admitted when they are back.
	Dormant []Rule
}

// CategoryRules are the rules that count the admissions of one category: its limits and its gap.
func (p Plan) CategoryRules() []Rule { return p.Rules[:p.caps()] }

// CapRules are the rules that count the admissions of all of a user's categories.
func (p Plan) CapRules() []Rule { return p.Rules[p.caps():] }

// caps is the index of the first rule of [KindCap].
func (p Plan) caps() int {
	for i, r := range p.Rules {
		if r.Kind == KindCap {
			return i
		}
	}
	return len(p.Rules)
}

// WithOwnLimits returns the plan of a user whose own limits replace the category's. The caps stay. The rules that are
// replaced become dormant, since the user may remove the own limits at any time.
func (p Plan) WithOwnLimits(own []Rule) Plan {
	return Plan{
		Algorithm: p.Algorithm, Rules: slices.Concat(own, p.CapRules()),
		Dormant: slices.Concat(p.Dormant, p.CategoryRules()),
	}
}

// Validate returns everything that is wrong with the plan: a rule out of its bounds, a rule of the category after a
// cap, a second gap, or two limits over the same window, of which only the smaller could have an effect.
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
		if i > p.caps() && r.Kind != KindCap {
			faults = append(faults, fmt.Errorf("rule %d (%s) must stand before the caps", place, r))
		}
		class, fault := Rule{Per: r.Per, Kind: r.Kind}, "have the same window: keep the smaller"
		if r.Kind == KindGap {
			class.Per, fault = 0, "are both a gap: keep the longer"
		}
		if other, taken := first[class]; taken {
			faults = append(faults, fmt.Errorf("rules %d and %d (%s, %s) %s", other, place, p.Rules[other-1], r, fault))
		} else {
			first[class] = place
		}
	}
	return errors.Join(faults...)
}

// Equal tells whether both plans are the same.
func (p Plan) Equal(o Plan) bool {
	return p.Algorithm == o.Algorithm && slices.Equal(p.Rules, o.Rules) && slices.Equal(p.Dormant, o.Dormant)
}

// dormantKind is the kind of dormant rules in the arguments of a script.
const dormantKind = int(KindCap) + 1

// Args appends the plan in the form that the Lua function read_plan reads.
func (p Plan) Args(args []any) []any {
	args = append(args, algorithms[p.Algorithm].letter, strconv.Itoa(len(p.Rules)+len(p.Dormant)))
	for _, r := range p.Rules {
		args = r.args(args, int(r.Kind))
	}
	for _, r := range p.Dormant {
		args = r.args(args, dormantKind)
	}
	return args
}

// argCount is how many arguments Args appends.
func (p Plan) argCount() int { return 2 + 3*(len(p.Rules)+len(p.Dormant)) }

// counted tells whether the plan keeps state for its category.
func (p Plan) counted() bool { return p.caps()+len(p.Dormant) > 0 }

// capped tells whether the plan has a cap, so that the log of its user counts.
func (p Plan) capped() bool { return p.caps() < len(p.Rules) }

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
func (p Plan) depth() (admissions int, per time.Duration) { return depth(p.CategoryRules(), p.Dormant) }
