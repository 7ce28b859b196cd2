package throttle

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

const epochOfTraces = Micros(1_800_000_000_000_000)

func randomPlan(r *rand.Rand, algorithm Algorithm) Plan {
	plan := Plan{Algorithm: algorithm}
	for range 1 + r.IntN(2) {
		per := time.Duration(1+r.IntN(2000)) * time.Millisecond
		if !slices.ContainsFunc(plan.Rules, func(known Rule) bool { return known.Per == per }) {
			plan.Rules = append(plan.Rules, Rule{Max: 1 + r.IntN(5), Per: per})
		}
	}
	if r.IntN(2) == 0 {
		plan.Rules = append(plan.Rules, Rule{
			Max: 1, Per: time.Duration(1+r.IntN(500)) * time.Millisecond, Kind: KindGap,
		})
	}
	if r.IntN(2) == 0 {
		plan.Rules = append(plan.Rules, Rule{
			Max: 1 + r.IntN(6), Per: time.Duration(1+r.IntN(3000)) * time.Millisecond, Kind: KindCap,
		})
	}
	for i, rule := range plan.Rules {
		if algorithm.KeepsLog() && rule.Kind == KindLimit || rule.Kind == KindCap {
			plan.Rules[i] = withReserve(r, rule)
		}
	}
	plan.Head.Priority = r.IntN(priorities + 1)
	return plan
}

// withReserve has a rule keep a part for the urgent, now and then.
func withReserve(r *rand.Rand, rule Rule) Rule {
	for i := range rule.Reserve {
		if left := rule.MaxFor(priorities) - 1; left > 0 && r.IntN(4) == 0 {
			rule.Reserve[i] = int32(1 + r.IntN(left))
		}
	}
	return rule
}

// randomPlans gives one plan, or the deepest of several first, or several that all hold the rules of the deepest
// dormant.
func randomPlans(r *rand.Rand) []Plan {
	algorithm := Algorithm(max(0, r.IntN(len(algorithms)+2)-2)) // rolling more often than each of the others
	plans := []Plan{randomPlan(r, algorithm)}
	if r.IntN(2) == 0 {
		return plans
	}
	for range 1 + r.IntN(2) {
		plan := randomPlan(r, algorithm)
		if per := plans[0].Rules[0].Per; r.IntN(3) == 0 &&
			!slices.ContainsFunc(plan.Rules, func(r Rule) bool { return r.Per == per }) {
			plan.Rules[0].Per = per // the same window, as when a limit is lowered or raised
		}
		plans = append(plans, plan)
	}
	var deepest Plan
	for _, p := range plans {
		most, per := depth(deepest.Dormant, p.CategoryRules())
		deepest.Dormant = []Rule{{Max: most, Per: per}}
		most, per = depth(deepest.Rules, p.CapRules())
		deepest.Rules = []Rule{{Max: max(most, 1), Per: max(per, time.Second), Kind: KindCap}}
	}
	for i := range plans {
		if len(plans[i].CapRules()) == 0 { // what nothing limits is not counted
			plans[i] = withCaps(plans[i], deepest.Rules)
		}
	}
	plans[0] = withCaps(plans[0], deepest.Rules)
	plans[0].Dormant = deepest.Dormant
	if r.IntN(2) == 0 {
		for i := range plans {
			plans[i] = withCaps(plans[i], deepest.Rules)
			plans[i].Dormant = deepest.Dormant
		}
	}
	return plans
}

// withCaps returns the plan with other caps.
func withCaps(p Plan, caps []Rule) Plan {
	p.Rules = slices.Concat(p.CategoryRules(), caps, p.Rules[p.from(KindNamed):])
	return p
}

// withNamedCaps puts named caps into some of the plans. Each cap has the same rules in all, and who asks is on a
// channel that it counts, or not.
func withNamedCaps(r *rand.Rand, plans []Plan) {
	for _, name := range []string{"a", "b"} {
		if r.IntN(3) > 0 {
			continue
		}
		var rules []Rule
		for i := range 1 + r.IntN(2) {
			rules = append(rules, withReserve(r, Rule{
				Max: 1 + r.IntN(4), Per: time.Duration(1+1500*i+r.IntN(1500)) * time.Millisecond,
				Kind: KindNamed, Cap: name,
			}))
		}
		channels := []string{"", "x", "y x:1"}[r.IntN(3)]
		for i := range rules {
			rules[i].Channels = channels
		}
		for i := range plans {
			if r.IntN(4) > 0 {
				plans[i].Rules = append(slices.Clip(plans[i].Rules), rules...)
			}
			plans[i].Head.Channel = []string{"", "x", "x:1", "y", "z"}[r.IntN(5)]
		}
	}
}

// withPeriods has rules of the plans count in periods. All plans have the same boundaries, of which those beyond the
// last are as far away as the rule says.
func withPeriods(r *rand.Rand, plans []Plan) {
	if plans[0].Algorithm != Rolling || r.IntN(3) > 0 {
		return
	}
	var boundaries Boundaries
	for i := range boundaries {
		for at := epochOfTraces; len(boundaries[i]) < 1+r.IntN(8); at += Micros(1+r.IntN(30)) * 100_000 {
			boundaries[i] = append(boundaries[i], at)
		}
	}
	for i := range plans {
		plans[i].Boundaries = boundaries
		plans[i].Rules = slices.Clone(plans[i].Rules)
		for j, rule := range plans[i].Rules {
			if j == 0 && r.IntN(2) == 0 || rule.Kind == KindCap && r.IntN(3) == 0 {
				plans[i].Rules[j].Period = Period(1 + r.IntN(3))
				plans[i].Rules[j].Per = 3500 * time.Millisecond // longer than all
			}
		}
	}
}

// randomClosed gives closed intervals within the time of a trace. Like people's hours they often begin or end when
// something happens: times are rounded, and so are those of the steps.
func randomClosed(r *rand.Rand) Closed {
	var closed Closed
	at := epochOfTraces
	for range r.IntN(4) {
		from := at + Micros(1+r.IntN(30))*100_000
		at = from + Micros(1+r.IntN(20))*100_000
		closed = append(closed, Interval{From: from, Until: at})
	}
	return closed
}

func randomTrace(r *rand.Rand) trace {
	tr := trace{plans: randomPlans(r)}
	withNamedCaps(r, tr.plans)
	withPeriods(r, tr.plans)
	rounded := r.IntN(2) == 0
	for i := range tr.plans {
		if rounded {
			tr.plans[i].Closed = randomClosed(r)
		}
	}
	if r.IntN(100) == 0 {
		tr.flood()
		return tr
	}
	tr.setBack = r.IntN(4) == 0
	now, shift, plan := epochOfTraces, Micros(0), 0
	refunded := map[int]bool{}
	for i := range 2 + r.IntN(30) {
		s := step{act: act(max(0, r.IntN(5)-1)), of: -1, token: tokenOf(i)}
		last := now
		if now += Micros(r.IntN(400_000)); rounded {
			now = max(last, now-now%100_000)
		}
		if i > 0 && tr.steps[i-1].act == ahead && r.IntN(3) == 0 {
			now = last + Micros(r.IntN(int(horizon)))
		}
		if tr.setBack && r.IntN(15) == 0 {
			shift -= Micros([]int{2_000_000, 20_000_000, 3_600_000_000}[r.IntN(3)])
		}
		if i > 0 && r.IntN(5) == 0 {
			plan = r.IntN(len(tr.plans))
		}
		s.plan = plan
		if s.act == refund {
			if s.of = r.IntN(i + 1); s.of == i || refunded[s.of] { // nobody takes one back twice
				s.act = bypass
			} else if tr.steps[s.of].token != tokenOf(s.of) {
				s.plan = tr.steps[s.of].plan // a log that did not count this life may count the one before
			}
			refunded[s.of] = true
		}
		if of := r.IntN(i + 1); of < i && (s.act == ahead || s.act == bypass) && r.IntN(4) == 0 {
			s.token = tr.again(s.token, tr.steps[of].token, now, shift, refunded)
		}
		s.real, s.at = now, now+shift
		tr.steps = append(tr.steps, s)
	}
	return tr
}

// tokenOf is the token of a step's own.
func tokenOf(step int) string { return "t" + strconv.Itoa(step) }

// again returns the token of an earlier step, for another life of the same id; or the step's own while the life before
// may not have ended, or when the clock was set back since that began: then the earlier admission may have been moved
// to the very slot that is granted now, and a log takes two of one token and moment for one. In use, lives are hours
// apart. What was admitted in the lives before is not taken back any more.
func (tr *trace) again(own, token string, now, shift Micros, refunded map[int]bool) string {
	sameID := func(s step) bool { return s.token == token }
	if slices.ContainsFunc(tr.steps, func(s step) bool {
		return sameID(s) && (s.real+horizon >= now || s.at != s.real+shift)
	}) {
		return own
	}
	for i, s := range tr.steps {
		refunded[i] = refunded[i] || sameID(s)
	}
	return token
}

// flood has more bypasses than a log has room for, of which most are taken back, and then asks.
func (tr *trace) flood() {
	const bypasses, refunds, asks = logRoom + 26, logRoom + 11, 25
	for i := range bypasses + refunds + asks {
		s := step{act: bypass, of: -1, token: tokenOf(i), at: epochOfTraces + Micros(i)*4_000}
		switch {
		case i >= bypasses+refunds:
			s.act = ask
			s.at += Micros(i-bypasses-refunds) * 100_000
		case i >= bypasses:
			s.act, s.of = refund, 2*bypasses-1-i
		}
		s.real = s.at
		tr.steps = append(tr.steps, s)
	}
}
