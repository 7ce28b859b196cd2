package throttle

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

// foundTraces are traces on which the limiters once disagreed, or broke their promise.
func foundTraces() map[string]trace {
	cap5 := Rule{Max: 5, Per: 2790 * time.Millisecond, Kind: KindCap}
	bucket := func(rules ...Rule) Plan { return Plan{Algorithm: TokenBucket, Rules: append(rules, cap5)} }
	limit := func(most int, ms time.Duration) Rule { return Rule{Max: most, Per: ms * time.Millisecond} }
	gap := func(ms time.Duration) Rule { return Rule{Max: 1, Per: ms * time.Millisecond, Kind: KindGap} }
	own := bucket(limit(2, 568), limit(1, 1070), gap(41))
	own.Dormant = []Rule{limit(4, 1839)}
	four, two := bucket(limit(4, 1000)), bucket(limit(2, 1000))
	four.Rules, two.Rules = four.CategoryRules(), two.CategoryRules()
	onChannel := func(channel string) Plan {
		once := Rule{Max: 1, Per: time.Second, Kind: KindNamed, Cap: "a", Channels: "x"}
		return Plan{Rules: []Rule{limit(3, 300), once}, Head: Head{Channel: channel}}
	}
	keeping := func(priority int) Plan {
		kept := Rule{Max: 3, Per: time.Second, Reserve: Reserve{0, 0, 2}}
		return Plan{Rules: []Rule{kept}, Head: Head{Priority: priority}}
	}
	return map[string]trace{
		"a refund under another limit of the window": {
			plans: []Plan{own, bucket(limit(2, 1839), gap(492)), bucket(limit(4, 895), gap(75))},
			steps: stepsOf([]step{
				{act: bypass, at: 2_730_815},
				{act: bypass, at: 2_830_239},
				{act: bypass, at: 3_369_696},
				{act: bypass, at: 3_554_207, plan: 2},
				{act: refund, at: 3_853_814, plan: 1, of: 3},
				{act: ask, at: 4_415_989, plan: 2},
				{act: ahead, at: 5_078_901, plan: 1},
				{act: ask, at: 5_783_274, plan: 1},
				{act: ahead, at: 5_969_365, plan: 1},
			}),
		},
		"lowered, charged and raised again": {
			plans: []Plan{four, two},
			steps: stepsOf([]step{
				{act: ask},
				{act: ask},
				{act: ask},
				{act: ask},
				{act: bypass, at: 1_000, plan: 1},
				{act: ask, at: 2_000},
				{act: ask, at: 2_000},
			}),
		},
		"lowered, refunded and raised again": {
			plans: []Plan{four, two},
			steps: stepsOf([]step{
				{act: ask},
				{act: ask},
				{act: ask},
				{act: ask},
				{act: refund, at: 1_000, plan: 1, of: 3},
				{act: ask, at: 2_000},
				{act: ask, at: 2_000},
			}),
		},
		"raised, charged and lowered again": {
			plans: []Plan{four, two},
			steps: stepsOf([]step{
				{act: ask, plan: 1},
				{act: ask, at: 250_000},
				{act: ask, at: 500_000},
				{act: ask, at: 750_000},
				{act: ask, at: 751_000, plan: 1},
			}),
		},
		"a bypass before a grant ahead of time": {
			plans: []Plan{four},
			steps: stepsOf([]step{
				{act: ask},
				{act: ask},
				{act: ask},
				{act: ask},
				{act: ahead, at: 241_000}, // granted for 250,000
				{act: bypass, at: 242_000},
				{act: ahead, at: 484_000}, // empty at 250,000, so there is a token at 500,000
				{act: ask, at: 492_000},
			}),
		},
		"one for whom a part is kept comes after a grant ahead to one who sees less": {
			plans: []Plan{keeping(4), keeping(1)},
			steps: stepsOf([]step{
				{act: ask},
				{act: ahead, at: 970_000}, // granted for 1,000,000
				{act: ask, at: 980_000, plan: 1},
				{act: ask, at: 1_000_000, plan: 1},
			}),
		},
		"refunded under a limit that never counted it": {
			plans: []Plan{bucket(limit(2, 1671)), bucket(limit(2, 1740))},
			steps: stepsOf([]step{
				{act: ask, at: 252_803},
				{act: ask, at: 427_750, plan: 1},
				{act: bypass, at: 722_578, plan: 1},
				{act: refund, at: 1_500_514, plan: 1, of: 0},
				{act: bypass, at: 1_831_892, plan: 1},
				{act: ask, at: 2_017_166, plan: 1},
			}),
		},
		"the clock is set back before a slot that was granted ahead": {
			plans: []Plan{{Rules: []Rule{limit(1, 306)}}},
			steps: setBackFrom(2, stepsOf([]step{
				{act: ask},
				{act: ahead, at: 300_000}, // granted for 306,000
				{act: ahead, at: 300_000},
				{act: ahead, at: 600_000}, // before 612,000
				{act: ask, at: 700_000},
			})),
			setBack: true,
		},
		"a bypass comes after the clock was set back, before a slot that was granted ahead": {
			plans: []Plan{{Rules: []Rule{limit(1, 306)}}},
			steps: setBackFrom(2, stepsOf([]step{
				{act: ask},
				{act: ahead, at: 300_000}, // granted for 306,000
				{act: bypass, at: 302_000},
				{act: ask, at: 700_000},
			})),
			setBack: true,
		},
		"refunds of what was admitted before the clock was set back": {
			plans: []Plan{{Algorithm: TokenBucket, Rules: []Rule{limit(1, 1000)}}},
			steps: setBackFrom(2, stepsOf([]step{
				{act: ask},
				{act: bypass, at: 1_000},
				{act: ask, at: 100_000}, // 140,000 counts as the moment of the last admission now
				{act: ask, at: 1_140_000},
				{act: refund, at: 1_200_000, of: 0},
				{act: ask, at: 1_300_000},
				{act: refund, at: 1_400_000, of: 1},
				{act: ask, at: 1_500_000},
			})),
			setBack: true,
		},
		"an id comes again on a channel that a cap does not count, and is refunded": {
			plans: []Plan{onChannel("x"), onChannel("y")},
			steps: stepsOf([]step{
				{act: ask},
				{act: bypass, at: 100_000, plan: 1, token: "t0"},
				{act: refund, at: 200_000, plan: 1, of: 1},
				{act: ask, at: 500_000}, // the cap still counts the first
			}),
		},
	}
}

// setBackFrom has the limiter's clock set back by an hour before a step.
func setBackFrom(first int, steps []step) []step {
	for i := range steps[first:] {
		steps[first+i].at -= 3_600_000_000
	}
	return steps
}

// stepsOf completes steps whose moments count from the epoch of the traces.
func stepsOf(steps []step) []step {
	for i := range steps {
		s := &steps[i]
		s.at += epochOfTraces
		s.real, s.token = s.at, cmp.Or(s.token, tokenOf(i))
		if s.act != refund {
			s.of = -1
		}
	}
	return steps
}

func TestFoundTraces(t *testing.T) {
	t.Parallel()
	for where, engine := range engines {
		for name, found := range foundTraces() {
			t.Run(where+"/"+name, func(t *testing.T) {
				t.Parallel()
				if fault, _ := disagreement(t, engine.open(t), tracePlayer(t, "\n", "\n"), found); fault != "" {
					t.Errorf("%s\n%s", fault, found)
				}
			})
		}
	}
}

// A limit that changes more often than a limiter remembers, and changes back. Only on Redis: the script is long.
func TestManyLimits(t *testing.T) {
	t.Parallel()
	for _, algorithm := range Algorithms() {
		if algorithm.KeepsLog() {
			continue
		}
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			tr := manyLimits(algorithm)
			if fault, _ := disagreement(t, redistest.Client(t), tracePlayer(t, "\n", "\n"), tr); fault != "" {
				t.Errorf("%s\n%s", fault, tr)
			}
		})
	}
}

func manyLimits(algorithm Algorithm) (tr trace) {
	const many, back = maxWindows + 10, 20
	for i := range many {
		per := time.Second + time.Duration(i%2)*time.Millisecond
		if algorithm == FixedWindow {
			per = time.Second + time.Duration(i)*time.Millisecond
		}
		tr.plans = append(tr.plans, Plan{Algorithm: algorithm, Rules: []Rule{{Max: 3 + i, Per: per}}})
	}
	for i := range many + back {
		s := step{act: ask, at: Micros(i) * 1_000, plan: i}
		if i >= many {
			s.plan = i - many
		}
		tr.steps = append(tr.steps, s)
	}
	tr.steps = stepsOf(tr.steps)
	return tr
}

// overdrawn checks every admission that the rules decided against a bucket of its limit alone. In that bucket count the
// admissions that were kept since the limit was known. It is no emptier than the limiter's bucket, in which a refunded
// admission counts for some time.
func overdrawn(tr trace, verdicts []verdict) string {
	if tr.plans[0].Algorithm != TokenBucket || tr.setBack || len(tr.plans) > maxWindows {
		return "" // no bucket, or too many to be remembered
	}
	takenBack := map[int]bool{}
	for i, s := range tr.steps {
		if s.act == refund && verdicts[i].done {
			takenBack[s.of] = true
		}
	}
	known := map[Rule][]Micros{}
	for i, s := range tr.steps {
		plan, v := tr.plans[s.plan], verdicts[i]
		if s.act == refund || !v.done {
			continue
		}
		for _, r := range plan.Rules {
			if r.Kind == KindLimit && s.act != bypass && !takenBack[i] &&
				bucketDebt(known[r], r, v.at) > units(r)*float64(r.Max-1) {
				return fmt.Sprintf("step %d finds the bucket of %s empty: %v", i, r, known[r])
			}
		}
		for r, times := range known { // the limiter forgets it no earlier
			if bucketDebt(times, r, v.at) == 0 {
				delete(known, r)
			}
		}
		for _, r := range slices.Concat(plan.Rules, plan.Dormant) {
			if _, found := known[r]; r.Kind == KindLimit && !found {
				known[r] = nil
			}
		}
		for r, times := range known {
			if !takenBack[i] {
				known[r] = insertSorted(slices.Clone(times), v.at)
			}
		}
	}
	return ""
}

// bucketDebt is what a bucket of a limit lacks after those admissions that lie before a moment.
func bucketDebt(times []Micros, r Rule, at Micros) float64 {
	debt, last := 0.0, Micros(0)
	for _, time := range times {
		if time > at {
			break
		}
		debt = min(max(0, debt-float64(time-last)*float64(r.Max))+units(r), units(r)*float64(r.Max))
		last = time
	}
	return max(0, debt-float64(at-last)*float64(r.Max))
}
