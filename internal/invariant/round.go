package invariant

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// round goes through the admissions after one moment and until another.
type round struct {
	cfg          Config
	after, until throttle.Micros
	// inForce is when the limits had reached every process.
	inForce throttle.Micros
	// cleared are the users whose windows were cleared, changed those whose own limits have changed, and when.
	cleared map[string]bool
	changed map[string]time.Time
	// unchecked counts what is not checked, by version.
	unchecked map[string]int
}

// violation is an admission that came too early under a rule, or in closed hours.
type violation struct {
	Admission
	rule  string
	early time.Duration
}

// past are a user's admissions up to a moment, oldest first.
type past struct {
	all []throttle.Micros
	// category holds the admissions of each category, limited those of them that were no bypasses. A log counts every
	// admission; fixed windows and token buckets hold back only what is limited.
	category, limited map[string][]throttle.Micros
	// caps holds the admissions that each named cap counts.
	caps map[string][]throttle.Micros
}

// counts tells whether a named cap counts an admission. Without knowing the channel nobody can tell.
func counts(rule throttle.Rule, m Admission) bool {
	return rule.Channels == "" || m.Channel != "" && rule.CountsOn(m.Channel)
}

// findViolations goes through one user's admissions, oldest first. It returns those of the round that some rule or the
// hours did not allow.
func (r *round) findViolations(admissions []Admission) []violation {
	var found []violation
	before := past{
		all:      make([]throttle.Micros, 0, len(admissions)),
		category: map[string][]throttle.Micros{}, limited: map[string][]throttle.Micros{},
		caps: map[string][]throttle.Micros{},
	}
	for _, m := range admissions {
		limits := r.cfg.Limits(m.UserID, m.Category)
		bypasses := m.Priority.AtLeast(limits.BypassFrom)
		if m.At > r.after && m.At <= r.until && r.checks(m) && !bypasses {
			v, exceeded := violation{}, false
			if r.knowsWindows(m.UserID) {
				v, exceeded = before.exceeded(m, limits.Plan)
			}
			if !exceeded && r.knowsHours(m) {
				v, exceeded = r.inClosedHours(m)
			}
			if exceeded {
				found = append(found, v)
			}
		}
		if !bypasses {
			before.limited[m.Category] = append(before.limited[m.Category], m.At)
		}
		for _, rules := range limits.Plan.NamedCaps() {
			// Before the policy that is in force, the category may not have been in the cap.
			if counts(rules[0], m) && r.decidedByThese(m) {
				before.caps[rules[0].Cap] = append(before.caps[rules[0].Cap], m.At)
			}
		}
		before.category[m.Category] = append(before.category[m.Category], m.At)
		before.all = append(before.all, m.At)
	}
	return found
}

// checks tells whether the limits are those that an admission was decided under. Others are counted.
func (r *round) checks(m Admission) bool {
	if !r.decidedByThese(m) {
		r.unchecked[m.Version]++
		return false
	}
	return true
}

// decidedByThese tells whether the limits are those that an admission was decided under.
func (r *round) decidedByThese(m Admission) bool {
	if m.Version != "" && r.cfg.Version != nil {
		return m.Version == r.cfg.Version()
	}
	return m.At > r.inForce
}

// knowsWindows tells whether what a user's windows held can be seen in the store.
func (r *round) knowsWindows(userID string) bool {
	_, changed := r.changed[userID]
	return !changed && !r.cleared[userID]
}

// knowsHours tells whether the hours of an admission's user are those of its moment. This process learns of a change a
// little after it takes effect.
func (r *round) knowsHours(m Admission) bool {
	changed, ok := r.changed[m.UserID]
	return !ok || m.At > throttle.MicrosOf(changed.Add(settling))
}

// tellUnchecked logs which versions of the policy were not checked, and counts their admissions.
func (r *round) tellUnchecked(ctx context.Context) (n int) {
	for _, version := range slices.Sorted(maps.Keys(r.unchecked)) {
		r.cfg.Log.InfoContext(ctx, "admissions under a policy that is no longer in force are not checked",
			"policy_version", cmp.Or(version, "unknown"), "admissions", r.unchecked[version])
		n += r.unchecked[version]
	}
	return n
}

// exceeded tells whether an admission came while the window of some rule was full: full of the admissions before it, of
// its category or, for a cap, of all that it counts.
func (p past) exceeded(m Admission, plan throttle.Plan) (violation, bool) {
	for _, rule := range plan.Rules {
		before, most := p.counted(m, plan.Algorithm, rule)
		if len(before) < most {
			continue
		}
		since := m.At.Time().Sub(before[len(before)-most].Time())
		if since < rule.Per {
			return violation{m, rule.String(), rule.Per - since}, true
		}
	}
	return violation{}, false
}

// counted gives the admissions that a rule counts, and how many of them fill its window for another one. Windows that
// are not rolling may admit nearly twice as many across their edge. Gaps and user caps are exact under every algorithm.
func (p past) counted(m Admission, algorithm throttle.Algorithm,
	rule throttle.Rule,
) (before []throttle.Micros, most int) {
	switch {
	case rule.Period > 0: // its periods are not known here
		return nil, rule.MaxFor(int(m.Priority))
	case rule.Kind == throttle.KindCap:
		return p.all, rule.MaxFor(int(m.Priority))
	case rule.Kind == throttle.KindNamed && !counts(rule, m):
		return nil, rule.Max
	case rule.Kind == throttle.KindNamed:
		return p.caps[rule.Cap], rule.MaxFor(int(m.Priority))
	case rule.Kind == throttle.KindLimit && !algorithm.KeepsLog():
		return p.limited[m.Category], algorithm.MostWithin(rule)
	}
	return p.category[m.Category], rule.MaxFor(int(m.Priority))
}
