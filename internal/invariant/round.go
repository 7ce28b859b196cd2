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
	cleared map[string]time.Time
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

// counts reports whether a named cap counts an admission. Without knowing the channel nobody can tell.
func counts(rule throttle.Rule, m Admission) bool {
	return rule.Channels == "" || m.Channel != "" && rule.CountsOn(m.Channel)
}

// history goes through the admissions of one user.
type history struct {
	*round
	// since is the moment after which the user's admissions were allowed by the preferences of today. Before, only caps
	// are checked.
	since throttle.Micros
	// limits are those of each category.
	limits map[string]Limits
}

// of begins with a user, who has these admissions.
func (r *round) of(userID string, admissions []Admission) *history {
	h := &history{round: r, since: r.wishesSince(userID), limits: map[string]Limits{}}
	for _, m := range admissions {
		if _, known := h.limits[m.Category]; !known {
			h.limits[m.Category] = r.cfg.Limits(userID, m.Category)
		}
	}
	return h
}

// findViolations goes through one user's admissions, oldest first. It returns those of the round that some rule or the
// hours did not allow. Nobody can tell which of several at one moment was first: they are allowed if they are in some
// order.
func (r *round) findViolations(admissions []Admission) []violation {
	user := admissions[0].UserID
	h := r.of(user, admissions)
	before := h.pastOf(nil)
	var found []violation
	for at := 0; at < len(admissions); {
		group := ofOneMoment(admissions[at:])
		violations := h.inThisOrder(group, &before)
		if len(violations) > 0 && len(group) > 1 {
			before = h.pastOf(admissions[:at])
			violations = h.inThisOrder(h.easiest(group, admissions[:at]), &before)
		}
		found = append(found, violations...)
		at += len(group)
	}
	h.noteUnchecked(admissions)
	if len(found) > 0 && (r.versionNow() != r.version || r.wishesSince(user) != h.since) {
		r.unchecked[unchecked{why: changedMeanwhile}] += len(found)
		return nil
	}
	return found
}

// ofOneMoment are the first of some admissions that came at one moment.
func ofOneMoment(admissions []Admission) []Admission {
	n := 1
	for n < len(admissions) && admissions[n].At == admissions[0].At {
		n++
	}
	return admissions[:n]
}

// inThisOrder returns which of the next admissions some rule or the hours did not allow, and adds them to those before.
func (h *history) inThisOrder(next []Admission, before *past) (found []violation) {
	for _, m := range next {
		if v, exceeded := h.exceeded(m, *before); exceeded {
			found = append(found, v)
		}
		h.add(before, m)
	}
	return found
}

// easiest puts admissions of one moment into an order in which all are allowed, if there is one. Whoever is allowed
// after all others may have been the last: that only makes it easier for them.
func (h *history) easiest(group, earlier []Admission) []Admission {
	left, order, violations := slices.Clone(group), slices.Clone(group), 0
	for n := len(left) - 1; n >= 0; n-- {
		last := h.mayBeLast(left, earlier)
		if last < 0 {
			if violations++; violations > named { // it takes as long as the square of what is left
				copy(order, left)
				break
			}
			last = n // a violation; others do not suffer from it
		}
		order[n] = left[last]
		left = slices.Delete(left, last, last+1)
	}
	return order
}

// mayBeLast is the place of one that is allowed after all others and those that came earlier; -1 for none.
func (h *history) mayBeLast(group, earlier []Admission) int {
	for i, m := range group {
		if _, exceeded := h.exceeded(m, h.pastOf(slices.Concat(earlier, group[:i], group[i+1:]))); !exceeded {
			return i
		}
	}
	return -1
}

// pastOf are some admissions, oldest first.
func (h *history) pastOf(admissions []Admission) past {
	p := past{
		all:      make([]admitted, 0, len(admissions)),
		category: map[string][]admitted{}, limited: map[string][]admitted{}, caps: map[string][]admitted{},
	}
	for _, m := range admissions {
		h.add(&p, m)
	}
	return p
}

// wasCleared reports whether a user's windows were cleared.
func (r *round) wasCleared(userID string) bool { return !r.cleared[userID].IsZero() }

// isOfRound reports whether this round is to check an admission, if it can.
func (h *history) isOfRound(m Admission) bool {
	return m.At > h.after && m.At <= h.until && !h.bypasses(m)
}

func (h *history) bypasses(m Admission) bool {
	return m.Priority.AtLeast(h.limits[m.Category].BypassFrom)
}

// add adds the latest admission. A user's own limits count what was admitted since they are in force, and nobody can
// tell how far back the limits before them remembered; likewise a category may have joined a cap with the policy.
func (h *history) add(p *past, m Admission) {
	one := admitted{m.At, m.Version}
	p.all = append(p.all, one)
	if m.At > h.since {
		p.category[m.Category] = append(p.category[m.Category], one)
		if !h.bypasses(m) {
			p.limited[m.Category] = append(p.limited[m.Category], one)
		}
	}
	for _, rules := range h.limits[m.Category].Plan.NamedCaps() {
		if h.decidedByThese(m) && counts(rules[0], m) {
			p.caps[rules[0].Cap] = append(p.caps[rules[0].Cap], one)
		}
	}
}

// exceeded reports whether some rule or the hours did not allow an admission of the round, given those before it.
func (h *history) exceeded(m Admission, before past) (violation, bool) {
	if !h.isOfRound(m) || !h.decidedByThese(m) {
		return violation{}, false
	}
	plan, wishesKnown := h.limits[m.Category].Plan, m.At > h.since
	for _, rule := range plan.Rules {
		byUser := rule.Kind == throttle.KindLimit || rule.Kind == throttle.KindGap || rule.Period > 0 && m.Zone == ""
		if h.wasCleared(m.UserID) || byUser && !wishesKnown {
			continue
		}
		if frees := h.frees(m, rule, plan.Algorithm, before); frees > m.At {
			return violation{m, rule.String(), frees.Sub(m.At)}, true
		}
	}
	if !wishesKnown {
		return violation{}, false
	}
	return h.inClosedHours(m)
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

// remembers reports whether a rule saw what a version of the policy had admitted. If it did, it saw all that came
// later.
func (r *round) remembers(version, category string, rule throttle.Rule) bool {
	return version == r.version || r.cfg.Remembers == nil || r.cfg.Remembers(version, category, rule)
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

// noteUnchecked counts the admissions of the round that can't be checked, or not in all.
func (h *history) noteUnchecked(admissions []Admission) {
	for _, m := range admissions {
		switch {
		case !h.isOfRound(m):
		case !h.decidedByThese(m):
			h.unchecked[unchecked{otherPolicy, cmp.Or(m.Version, "unknown")}]++
		case m.At <= h.since:
			h.unchecked[unchecked{why: changedWishes}]++
		case h.wasCleared(m.UserID):
			h.unchecked[unchecked{why: clearedWindows}]++
		}
	}
}

// decidedByThese reports whether the limits are those that an admission was decided under.
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
		r.cfg.Log.InfoContext(ctx, "some admissions can't be checked against their limits; the invariant checker skips them", append(about, "admissions", r.unchecked[of])...)
		n += r.unchecked[of]
	}
	return n
}
