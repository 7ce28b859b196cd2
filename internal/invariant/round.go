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
	// version is that of the limits, inForce when they had reached every process.
	version string
	inForce throttle.Micros
	// cleared are the users whose windows were cleared.
	cleared map[string]bool
	// wishesSince gives the moment after which a user's admissions were allowed by the preferences of today.
	wishesSince func(userID string) throttle.Micros
	// unchecked counts what is not checked, or not in all.
	unchecked map[unchecked]int
}

// violation is an admission that came too early under a rule, or in closed hours.
type violation struct {
	Admission
	rule  string
	early time.Duration
}

// admitted is an earlier admission, and the version that decided it.
type admitted struct {
	at      throttle.Micros
	version string
}

// past are a user's admissions up to a moment, oldest first.
type past struct {
	all []admitted
	// category holds the admissions of each category, limited those of them that were no bypasses, as far back as the
	// user's limits are known to have been remembered. A log counts every admission; fixed windows and token buckets
	// hold back only what is limited.
	category, limited map[string][]admitted
	// caps holds the admissions that each named cap counts.
	caps map[string][]admitted
}

// counts tells whether a named cap counts an admission. Without knowing the channel nobody can tell.
func counts(rule throttle.Rule, m Admission) bool {
	return rule.Channels == "" || m.Channel != "" && rule.CountsOn(m.Channel)
}

// findViolations goes through one user's admissions, oldest first. It returns those of the round that some rule or the
// hours did not allow.
func (r *round) findViolations(admissions []Admission) []violation {
	user := admissions[0].UserID
	since := r.wishesSince(user)
	before := past{
		all:      make([]admitted, 0, len(admissions)),
		category: map[string][]admitted{}, limited: map[string][]admitted{}, caps: map[string][]admitted{},
	}
	var found []violation
	for _, m := range admissions {
		limits := r.cfg.Limits(m.UserID, m.Category)
		bypasses := m.Priority.AtLeast(limits.BypassFrom)
		if m.At > r.after && m.At <= r.until && r.checks(m) && !bypasses {
			if v, exceeded := r.exceeded(m, limits.Plan, before, m.At > since); exceeded {
				found = append(found, v)
			}
		}
		before.add(m, limits.Plan, bypasses, m.At > since, r.decidedByThese(m))
	}
	if len(found) > 0 && (r.versionNow() != r.version || r.wishesSince(user) != since) {
		r.unchecked[unchecked{why: changedMeanwhile}] += len(found)
		return nil
	}
	return found
}

// add adds the latest admission. A user's own limits count what was admitted since they are in force, and nobody can
// tell how far back the limits before them remembered; likewise a category may have joined a cap with the policy.
func (p *past) add(m Admission, plan throttle.Plan, bypasses, wishesKnown, policyKnown bool) {
	one := admitted{m.At, m.Version}
	p.all = append(p.all, one)
	if wishesKnown {
		p.category[m.Category] = append(p.category[m.Category], one)
		if !bypasses {
			p.limited[m.Category] = append(p.limited[m.Category], one)
		}
	}
	for _, rules := range plan.NamedCaps() {
		if policyKnown && counts(rules[0], m) {
			p.caps[rules[0].Cap] = append(p.caps[rules[0].Cap], one)
		}
	}
}

// exceeded tells whether some rule or the hours did not allow an admission, given those before it. wishesKnown says
// that the user's preferences were those of today.
func (r *round) exceeded(m Admission, plan throttle.Plan, before past, wishesKnown bool) (violation, bool) {
	switch {
	case !wishesKnown:
		r.unchecked[unchecked{why: changedWishes}]++
	case r.cleared[m.UserID]:
		r.unchecked[unchecked{why: clearedWindows}]++
	}
	for _, rule := range plan.Rules {
		ofUser := rule.Kind == throttle.KindLimit || rule.Kind == throttle.KindGap || rule.Period > 0 && m.Zone == ""
		if r.cleared[m.UserID] || ofUser && !wishesKnown {
			continue
		}
		if frees := r.frees(m, rule, plan.Algorithm, before); frees > m.At {
			return violation{m, rule.String(), frees.Sub(m.At)}, true
		}
	}
	if !wishesKnown {
		return violation{}, false
	}
	return r.inClosedHours(m)
}

// frees is when a rule first allows an admission: when enough of those before it, of its category or, for a cap, of all
// that it counts, are out of its window or its period. It is 0 when there are not so many.
func (r *round) frees(m Admission, rule throttle.Rule, algorithm throttle.Algorithm, p past) throttle.Micros {
	before, most := p.counted(m, algorithm, rule)
	if len(before) < most {
		return 0
	}
	oldest := before[len(before)-most]
	switch {
	case !r.remembers(oldest.version, m.Category, rule):
		return 0
	case rule.Period == 0:
		return oldest.at.Add(rule.Per)
	case r.cfg.Period == nil:
		return 0
	}
	if period := r.cfg.Period(m, rule.Period); oldest.at >= period.From {
		return period.Until
	}
	return 0
}

// remembers tells whether a rule saw what a version of the policy had admitted. If it did, it saw all that came later.
func (r *round) remembers(version, category string, rule throttle.Rule) bool {
	return version == r.version || r.cfg.Remembers == nil || r.cfg.Remembers(version, category, rule)
}

// counted gives the admissions that a rule counts, and how many of them fill its window for another one. Windows that
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

// unchecked is why admissions are not checked, or not in all.
type unchecked struct {
	why string
	// version is that of the policy that decided them, where that is why.
	version string
}

// What can't be known afterwards.
const (
	otherPolicy      = "another policy than the one in force decided them"
	changedWishes    = "their users' preferences have changed since"
	clearedWindows   = "their users' windows were cleared"
	changedMeanwhile = "policy or preferences changed while they were checked"
)

// checks tells whether the limits are those that an admission was decided under. Others are counted.
func (r *round) checks(m Admission) bool {
	if !r.decidedByThese(m) {
		r.unchecked[unchecked{otherPolicy, cmp.Or(m.Version, "unknown")}]++
		return false
	}
	return true
}

// decidedByThese tells whether the limits are those that an admission was decided under.
func (r *round) decidedByThese(m Admission) bool {
	if m.Version != "" && r.version != "" {
		return m.Version == r.version
	}
	return m.At > r.inForce
}

// versionNow is that of the policy in force; empty when nobody tells.
func (r *round) versionNow() string {
	if r.cfg.Version == nil {
		return ""
	}
	return r.cfg.Version()
}

// tellUnchecked logs what was not checked, and counts it.
func (r *round) tellUnchecked(ctx context.Context) (n int) {
	byName := func(a, b unchecked) int { return cmp.Or(cmp.Compare(a.why, b.why), cmp.Compare(a.version, b.version)) }
	for _, of := range slices.SortedFunc(maps.Keys(r.unchecked), byName) {
		about := []any{"because", of.why}
		if of.version != "" {
			about = append(about, "policy_version", of.version)
		}
		r.cfg.Log.InfoContext(ctx, "some admissions can't be checked", append(about, "admissions", r.unchecked[of])...)
		n += r.unchecked[of]
	}
	return n
}
