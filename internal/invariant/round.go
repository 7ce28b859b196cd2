package invariant

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// round goes through the admissions after one moment and until another, user by user. It keeps those of one user that
// some rule can still see.
type round struct {
	*Checker
	after, until throttle.Micros
	// version is that of the limits, inForce when they had reached every process.
	version string
	inForce throttle.Micros
	// cleared are the users whose windows were cleared since a moment, and when; nil before anybody asked.
	cleared      map[string]time.Time
	clearedSince time.Time
	// user is the one whose admissions come.
	user *history
	// found is how many violations there are, first the first of them.
	found int
	first []violation
	// unchecked counts what is not checked, or not in all.
	unchecked map[unchecked]int
}

// violation is an admission that came too early under a rule, or in closed hours.
type violation struct {
	Admission
	rule  string
	early time.Duration
}

// history goes through the admissions of one user.
type history struct {
	*round
	userID string
	// since is the moment after which the user's admissions were allowed by the preferences of today. Before, only caps
	// are checked.
	since throttle.Micros
	// cleared is true when the user's windows were cleared.
	cleared bool
	// limits are those of each category.
	limits map[string]Limits
	past   past
	// latest are the latest admissions, all of one moment. They are not in the past yet.
	latest []Admission
	// violations and first are as in round.
	violations int
	first      []violation
}

// add takes the next admission.
func (r *round) add(ctx context.Context, m Admission) error {
	if r.user == nil || r.user.userID != m.UserID {
		r.endUser()
		cleared, err := r.wasCleared(ctx, m.UserID)
		if err != nil {
			return err
		}
		r.user = &history{
			round: r, userID: m.UserID, since: r.wishesSince(m.UserID), cleared: cleared, limits: map[string]Limits{},
			past: past{
				category: map[string][]admitted{}, limited: map[string][]admitted{}, caps: map[string][]admitted{},
			},
		}
	}
	r.user.add(m)
	return nil
}

// wasCleared reports whether a user's windows were cleared since the user's admissions count that the round looks at.
// It is noted before they are cleared, and something may have been admitted in between.
func (r *round) wasCleared(ctx context.Context, userID string) (bool, error) {
	since := r.since(userID, r.after)
	if r.cleared == nil || since.Before(r.clearedSince) {
		cleared, err := r.cfg.Cleared(ctx, since)
		if err != nil {
			return false, fmt.Errorf("read whose windows were cleared: %w", err)
		}
		r.cleared, r.clearedSince = cleared, since
	}
	return r.cleared[userID].After(since), nil
}

// endUser ends with the user whose admissions came.
func (r *round) endUser() {
	h := r.user
	if r.user = nil; h == nil {
		return
	}
	h.judge()
	if h.violations > 0 && (r.versionNow() != r.version || r.wishesSince(h.userID) != h.since) {
		r.unchecked[unchecked{why: changedMeanwhile}] += h.violations
		return
	}
	r.found += h.violations
	r.first = append(r.first, h.first[:min(len(h.first), named-len(r.first))]...)
}

// add takes the user's next admission.
func (h *history) add(m Admission) {
	if len(h.latest) > 0 && h.latest[0].At != m.At {
		h.judge()
	}
	if _, known := h.limits[m.Category]; !known {
		h.limits[m.Category] = h.cfg.Limits(h.userID, m.Category)
	}
	h.latest = append(h.latest, m)
	h.noteUnchecked(m)
}

// judge finds those of the latest admissions, all of one moment, that some rule or the hours did not allow. Nobody can
// tell which of them was first: they are allowed if they are in some order. At first the less urgent counts as earlier,
// to which a reserve leaves less.
func (h *history) judge() {
	slices.SortFunc(h.latest, func(x, y Admission) int {
		return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.ID, y.ID))
	})
	before := h.past
	if len(h.latest) > 1 {
		before = h.past.clone()
	}
	found := h.inThisOrder(h.latest, &h.past)
	if len(found) > 0 && len(h.latest) > 1 {
		order := h.easiest(h.latest, before)
		h.past = before
		found = h.inThisOrder(order, &h.past)
	}
	h.violations += len(found)
	h.first = append(h.first, found[:min(len(found), named-len(h.first))]...)
	h.latest = h.latest[:0]
}

// inThisOrder returns which of the next admissions some rule or the hours did not allow, and adds them to those before.
func (h *history) inThisOrder(next []Admission, before *past) (found []violation) {
	for _, m := range next {
		if v, exceeded := h.exceeded(m, *before); exceeded {
			found = append(found, v)
		}
		h.count(before, m)
	}
	return found
}

// easiest puts admissions of one moment into an order in which all are allowed, if there is one. Whoever is allowed
// after all others may have been the last: that only makes it easier for them.
func (h *history) easiest(group []Admission, before past) []Admission {
	left, order, violations := slices.Clone(group), slices.Clone(group), 0
	for n := len(left) - 1; n >= 0; n-- {
		last := h.mayBeLast(left, before)
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
func (h *history) mayBeLast(group []Admission, before past) int {
	for i, m := range group {
		others := before.clone()
		for k, other := range group {
			if k != i {
				h.count(&others, other)
			}
		}
		if _, exceeded := h.exceeded(m, others); !exceeded {
			return i
		}
	}
	return -1
}

// isOfRound reports whether this round is to check an admission, if it can.
func (h *history) isOfRound(m Admission) bool {
	return m.At > h.after && m.At <= h.until && !h.bypasses(m)
}

func (h *history) bypasses(m Admission) bool {
	return m.Priority.AtLeast(h.limits[m.Category].BypassFrom)
}

// exceeded reports whether some rule or the hours did not allow an admission of the round, given those before it.
func (h *history) exceeded(m Admission, before past) (violation, bool) {
	if !h.isOfRound(m) || !h.decidedByThese(m) {
		return violation{}, false
	}
	plan, wishesKnown := h.limits[m.Category].Plan, m.At > h.since
	for _, rule := range plan.Rules {
		byUser := rule.Kind == throttle.KindLimit || rule.Kind == throttle.KindGap || rule.Period > 0 && m.Zone == ""
		if h.cleared || byUser && !wishesKnown {
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

// noteUnchecked counts an admission of the round that can't be checked, or not in all.
func (h *history) noteUnchecked(m Admission) {
	switch {
	case !h.isOfRound(m):
	case !h.decidedByThese(m):
		h.unchecked[unchecked{otherPolicy, cmp.Or(m.Version, "unknown")}]++
	case m.At <= h.since:
		h.unchecked[unchecked{why: changedWishes}]++
	case h.cleared:
		h.unchecked[unchecked{why: clearedWindows}]++
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
