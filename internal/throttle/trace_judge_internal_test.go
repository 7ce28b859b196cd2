package throttle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// againstSpecification compares every result of a rolling plan with Next over all admissions that were ever made and
// not refunded: what a log forgot must not matter. A result may be later only after a flood, when a refund can't bring
// back one by one what was cut off. When the clock was set back, Next over such a history is no measure.
func againstSpecification(tr trace, verdicts []verdict) string {
	if tr.setBack {
		return ""
	}
	var state, limit []Micros
	named := namedLogs{}
	pool, poolPer := tr.plans[0].depth()
	capPool, capPer := depth(tr.plans[0].CapRules())
	for i, s := range tr.steps {
		plan, v := tr.planOf(i), verdicts[i]
		if s.act == refund {
			if of := verdicts[s.of]; of.done && tr.steps[s.of].act != refund && v.done {
				state, limit = without(state, of.at), without(limit, of.at)
				named.refund(plan, s.of)
			}
			continue
		}
		// A rule longer than any before, as one of the calendar, begins with what is remembered.
		_, ofCategory := plan.depth()
		_, ofCap := depth(plan.CapRules())
		if ofCategory > poolPer && forgets(state, s.at, poolPer) || ofCap > capPer && forgets(limit, s.at, capPer) {
			return ""
		}
		logs := append([]Log{
			{Rules: plan.CategoryRules(), Admitted: state, Priority: plan.Head.Priority, Boundaries: plan.Boundaries},
			{Rules: plan.CapRules(), Admitted: limit, Priority: plan.Head.Priority, Boundaries: plan.Boundaries},
		}, named.of(plan)...)
		at, by := Next(s.at, plan.Closed, logs...)
		if s.act == bypass {
			at, by = Bypass(s.at, logs...), Cause{Rule: NoRule}
		}
		if v.at < at || len(tr.steps) < 100 && (v.at != at || !v.done && v.by != by) {
			return fmt.Sprintf("step %d: the limiter says %+v, Next %d by %+v", i, v, at, by)
		}
		if !v.done {
			continue
		}
		// A log that begins under a plan less deep than the first knows nothing of that one's windows.
		most, per := plan.depth()
		if empty(state, s.at, poolPer) && (most < pool || per < poolPer) {
			return ""
		}
		if most, per = depth(plan.CapRules()); empty(limit, s.at, capPer) && (most < capPool || per < capPer) {
			return ""
		}
		state, limit = insertSorted(state, v.at), insertSorted(limit, v.at)
		named.charge(plan, i, v.at)
	}
	return ""
}

// forgets reports whether a log that remembers for a time may have forgotten some of its admissions.
func forgets(admitted []Micros, now Micros, per time.Duration) bool {
	return len(admitted) > 0 && admitted[0].Add(per) <= now
}

// namedLogs are the admissions that each named cap counts, by the step.
type namedLogs map[string]map[int]Micros

// of returns the logs of a plan's named caps.
func (n namedLogs) of(plan Plan) []Log {
	var logs []Log
	for _, rules := range plan.NamedCaps() {
		log := Log{Rules: rules, Priority: plan.Head.Priority}
		if rules[0].CountsOn(plan.Head.Channel) {
			log.Admitted = slices.Sorted(maps.Values(n[rules[0].Cap]))
		}
		logs = append(logs, log)
	}
	return logs
}

func (n namedLogs) charge(plan Plan, step int, at Micros) {
	for _, rules := range plan.NamedCaps() {
		if name := rules[0].Cap; rules[0].CountsOn(plan.Head.Channel) {
			if n[name] == nil {
				n[name] = map[int]Micros{}
			}
			n[name][step] = at
		}
	}
}

func (n namedLogs) refund(plan Plan, step int) {
	for _, rules := range plan.NamedCaps() {
		delete(n[rules[0].Cap], step)
	}
}

// empty reports whether nothing lies within a window and a key's slack.
func empty(times []Micros, now Micros, per time.Duration) bool {
	return len(times) == 0 || times[len(times)-1].Add(per) <= now
}

func insertSorted(times []Micros, at Micros) []Micros {
	i, _ := slices.BinarySearch(times, at)
	return slices.Insert(times, i, at)
}

func without(times []Micros, at Micros) []Micros {
	if i, found := slices.BinarySearch(times, at); found {
		return slices.Delete(times, i, i+1)
	}
	return times
}

// brokenPromise checks every admission that the rules decided against what the algorithm promises for the window that
// ends with it, on the clock that nobody sets. It counts the admissions that were kept.
func brokenPromise(tr trace, verdicts []verdict) (fault string, kept int) {
	takenBack := map[int]bool{}
	for i, s := range tr.steps {
		if s.act == refund && verdicts[i].done {
			takenBack[s.of] = true
		}
	}
	under := map[Rule][]counted{}
	for i, s := range tr.steps {
		v := verdicts[i]
		if s.act == refund || !v.done || takenBack[i] {
			continue
		}
		kept++
		at := v.at - s.at + s.real
		if s.act == bypass && tr.plans[0].Algorithm != Rolling {
			continue // only a log counts them exactly
		}
		for _, rule := range tr.plans[s.plan].Rules {
			if !rule.CountsOn(tr.plans[s.plan].Head.Channel) || rule.Period > 0 && tr.setBack {
				continue
			}
			under[rule] = append(under[rule], counted{i, at, s.act == bypass, tr.plans[s.plan]})
		}
	}
	for rule, all := range under {
		if fault := tooMany(rule, all, tr.plans[0].Algorithm); fault != "" {
			return fault, kept
		}
	}
	return "", kept
}

// counted is an admission that a rule counts.
type counted struct {
	step     int
	at       Micros
	bypasses bool
	plan     Plan
}

// tooMany finds an admission that the rule forbids after all that went before it, whichever was granted first: what was
// granted ahead, and what bypasses, too.
func tooMany(rule Rule, all []counted, algorithm Algorithm) string {
	slices.SortStableFunc(all, func(a, b counted) int { return cmp.Compare(a.at, b.at) })
	for n, one := range all {
		most := rule.MaxFor(one.plan.Head.Priority)
		if algorithm != Rolling && rule.Kind == KindLimit {
			most = 2 * rule.Max
		}
		if n >= most && !one.bypasses && one.at < rule.frees(all[n-most].at, one.plan.Boundaries) {
			return fmt.Sprintf("step %d is the admission after %d within %s: step %d", one.step, most, rule.Per, all[n-most].step)
		}
	}
	return ""
}
