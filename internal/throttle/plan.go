package throttle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is everything that limits one key (for notifications: one user's category), judged all or none. The limiters
// take it as valid: see [Plan.Validate].
//
// A plan may change between two questions, and back. Smaller limits and longer windows hold from the next decision on.
// A log remembers the largest Max and the longest Per that it was ever charged under, and lets an admission go only
// when no such rule can see it, so that a rule that comes back finds all that was admitted meanwhile. It forgets the
// rules together with the admissions, when nothing was admitted for the longest window. A rule longer than any before
// begins with what is remembered.
type Plan struct {
	// Algorithm judges the rules of [KindLimit]. Gaps and caps are always exact.
	Algorithm Algorithm
	// Rules are judged in this order: those of the category, then those of [KindCap]. A decision's rule index points
	// into it.
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

// WithOwnLimits gives the plan of a user whose own limits replace the category's. The caps stay; the rules that are
// replaced lie dormant, since the user may take the limits back at any time.
func (p Plan) WithOwnLimits(own []Rule) Plan {
	return Plan{
		Algorithm: p.Algorithm, Rules: slices.Concat(own, p.CapRules()),
		Dormant: slices.Concat(p.Dormant, p.CategoryRules()),
	}
}

// Validate joins everything that is wrong with the plan: a rule out of its bounds, a rule of the category after a cap,
// a second gap, two limits over the same window, of which only the smaller could ever have an effect.
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

// Equal tells whether both plans judge alike.
func (p Plan) Equal(o Plan) bool {
	return p.Algorithm == o.Algorithm && slices.Equal(p.Rules, o.Rules) && slices.Equal(p.Dormant, o.Dormant)
}

// dormantKind is the kind of dormant rules in the arguments of a script.
const dormantKind = int(KindCap) + 1

// Args appends the plan as the argument list that the Lua function read_plan reads.
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

// counted tells whether the plan keeps a state for its category.
func (p Plan) counted() bool { return p.caps()+len(p.Dormant) > 0 }

// capped tells whether the plan has a cap, so that the log of its user counts.
func (p Plan) capped() bool { return p.caps() < len(p.Rules) }

// StateKey is where the limiter keeps the windows of a category of a user, below a key prefix. Each way of counting has
// keys of its own, so that a change of the algorithm starts anew instead of meeting a key of another type. A colon in
// the category is escaped: a user's name must not be able to reach into another category.
func (p Plan) StateKey(prefix string, key Key) string {
	return prefix + algorithms[p.Algorithm].letter + ":" + escapeCategory(key.Category) + ":" + key.User
}

func escapeCategory(category string) string {
	if !strings.ContainsAny(category, ":%") {
		return category
	}
	return strings.ReplaceAll(strings.ReplaceAll(category, "%", "%25"), ":", "%3A")
}

// CapKey is where the limiter keeps the log of a user's cap.
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

// depth is that of the log of the plan's category.
func (p Plan) depth() (admissions int, per time.Duration) { return depth(p.CategoryRules(), p.Dormant) }
