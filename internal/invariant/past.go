package invariant

import (
	"maps"
	"slices"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// admitted is an earlier admission, and the version that decided it.
type admitted struct {
	at      throttle.Micros
	version string
}

// past are a user's admissions up to a moment that some rule can still see, oldest first.
type past struct {
	all []admitted
	// category holds the admissions of each category, limited those of them that were no bypasses, as far back as the
	// user's limits are known to have been remembered. A log counts every admission; fixed windows and token buckets
	// hold back only what is limited.
	category, limited map[string][]admitted
	// caps holds the admissions that each named cap counts.
	caps map[string][]admitted
}

// clone is a past to which others can be added. Only one clone at a time may be in use.
func (p past) clone() past {
	return past{
		all: p.all, category: maps.Clone(p.category), limited: maps.Clone(p.limited), caps: maps.Clone(p.caps),
	}
}

// count adds the latest admission to a past. A user's own limits count what was admitted since they are in force, and
// nobody can tell how far back the limits before them remembered; likewise a category may have joined a cap with the
// policy.
func (h *history) count(p *past, m Admission) {
	one, plan := admitted{m.At, m.Version}, h.limits[m.Category].Plan
	most := mostSeen(plan)
	p.all = with(p.all, one, most)
	if m.At > h.since {
		p.category[m.Category] = with(p.category[m.Category], one, most)
		if !h.bypasses(m) {
			p.limited[m.Category] = with(p.limited[m.Category], one, most)
		}
	}
	for _, rules := range plan.NamedCaps() {
		if h.decidedByThese(m) && counts(rules[0], m) {
			p.caps[rules[0].Cap] = with(p.caps[rules[0].Cap], one, most)
		}
	}
}

// mostSeen is how many admissions a rule of a plan can see at most. Caps are the same in the plans of all categories
// that they count.
func mostSeen(plan throttle.Plan) (most int) {
	for _, rule := range plan.Rules {
		most = max(most, rule.Max)
		if rule.Kind == throttle.KindLimit && !plan.Algorithm.KeepsLog() {
			most = max(most, plan.Algorithm.MostWithin(rule))
		}
	}
	return most
}

// with adds the latest admission, and forgets the oldest when they are twice as many as can be seen.
func with(list []admitted, one admitted, most int) []admitted {
	if len(list) > 2*most+named {
		list = slices.Clone(list[len(list)-most:])
	}
	return append(list, one)
}

// counts reports whether a named cap counts an admission. Without knowing the channel nobody can tell.
func counts(rule throttle.Rule, m Admission) bool {
	return rule.Channels == "" || m.Channel != "" && rule.CountsOn(m.Channel)
}

// counted returns the admissions that a rule counts, and how many of them fill its window for another one. Windows that
// are not rolling may admit nearly twice as many across their edge. Gaps and user caps are exact under every algorithm.
func (p past) counted(m Admission, algorithm throttle.Algorithm,
	rule throttle.Rule,
) (before []admitted, most int) {
	switch {
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
