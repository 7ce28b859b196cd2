package throttletest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// stateCases are about what the limiter tells of its state, and what it leaves behind.
func stateCases() []scenario {
	return []scenario{
		{"PeekLeavesNothing", peekLeavesNothing},
		{"UsageOfEachRule", usageOfEachRule},
		{"PeekSaysWhatAllowAndSpendDo", spendIsBoth},
		{"EveryKeyExpires", everyKeyExpires},
		{"LogsStayShort", logsStayShort},
	}
}

func peekLeavesNothing(p *probe) {
	plan := p.plan(limit(2, time.Second), gap(ms), userCap(3, time.Second))
	for range 5 {
		if u := p.peek(anna, plan); !u.Allowed || u.At != p.now || u.Rule != throttle.NoRule {
			p.Fatalf("peek at nothing: %+v", u)
		}
	}
	if stored := p.Stored(); len(stored) > 0 {
		p.Errorf("peek left %v", stored)
	}
}

func usageOfEachRule(p *probe) {
	plan := p.plan(limit(4, 100*ms), gap(10*ms), userCap(9, time.Second))
	check := func(used [3]int, frees [3]time.Duration) {
		p.Helper()
		for i, u := range p.peek(anna, plan).Rules {
			want := throttle.RuleUsage{Rule: plan.Rules[i], Used: used[i]}
			if frees[i] > 0 {
				want.FreesAt = epoch.Add(frees[i])
			}
			if diff := cmp.Diff(want, u); diff != "" {
				p.Errorf("at %s rule %d (want -, got +):\n%s", p.since(p.now), i, diff)
			}
			if u.Remaining() != u.Rule.Max-u.Used {
				p.Errorf("%d remain of %+v", u.Remaining(), u)
			}
		}
	}
	token := p.Algorithm == throttle.TokenBucket
	either := func(bucket, other time.Duration) time.Duration {
		if token {
			return bucket
		}
		return other
	}

	check([3]int{}, [3]time.Duration{})
	p.pass(anna, plan, 1)
	check([3]int{1, 1, 1}, [3]time.Duration{either(25*ms, 100*ms), 10 * ms, time.Second})
	p.at(10 * ms)
	check([3]int{1, 0, 1}, [3]time.Duration{either(25*ms, 100*ms), 0, time.Second})
	p.pass(anna, plan, 1)
	p.at(20 * ms)
	p.pass(anna, plan, 1)
	check([3]int{3, 1, 3}, [3]time.Duration{either(25*ms, 100*ms), 30 * ms, time.Second})
	p.at(101 * ms)
	if p.Algorithm.KeepsLog() {
		check([3]int{2, 0, 3}, [3]time.Duration{110 * ms, 0, time.Second})
	} else {
		check([3]int{0, 0, 3}, [3]time.Duration{0, 0, time.Second})
	}
	p.at(time.Second)
	check([3]int{0, 0, 2}, [3]time.Duration{0, 0, time.Second + 10*ms})
}

// spendIsBoth: peek says what allow and spend would decide, and spend tells what peek does afterwards.
func spendIsBoth(p *probe) {
	plan := p.plan(limit(3, 10*ms), limit(5, 40*ms), gap(2*ms), userCap(4, 30*ms))
	for i := range 120 {
		p.at(time.Duration(i) * 700 * time.Microsecond)
		want, token := p.peek(anna, plan).Decision, p.token()
		if i%2 == 0 {
			if got := p.ask(anna, plan, token); got != want {
				p.Fatalf("at %s peek says %+v, allow %+v", p.since(p.now), want, got)
			}
			continue
		}
		got, err := p.Limiter.Spend(p.Context(), anna, plan, token)
		if err != nil {
			p.Fatal(err)
		}
		if got.Decision != want {
			p.Fatalf("at %s spend says %+v, want %+v", p.since(p.now), got.Decision, want)
		}
		if diff := cmp.Diff(p.peek(anna, plan).Rules, got.Rules); diff != "" {
			p.Fatalf("at %s the usage differs (peek -, spend +):\n%s", p.since(p.now), diff)
		}
		if again := p.ask(anna, plan, token); again.Allowed != got.Allowed {
			p.Fatalf("asked again with the token of %+v: %+v", got.Decision, again)
		}
	}
}

// linger is how much longer than its windows a key may be there.
const linger = time.Second + 3*ms

// everyKeyExpires makes every kind of call, and wants each key to be gone as soon as the last window has passed.
func everyKeyExpires(p *probe) {
	plan := p.plan(limit(2, 3*ms), gap(ms), userCap(3, 7*ms))
	check := func(after string) {
		p.Helper()
		for _, s := range p.Stored() {
			if s.Expires <= p.now || s.Expires > p.now.Add(7*ms+linger) {
				p.Errorf("after %s at %s: %s expires at %s", after, p.since(p.now), s.Name, p.since(s.Expires))
			}
		}
	}
	for i := range 40 {
		p.at(time.Duration(i) * 700 * time.Microsecond)
		token := p.token()
		if d := p.ask(anna, plan, token); d.Allowed {
			check("an admission")
			if i%3 == 0 {
				p.refund(anna, plan, token, d.At, true)
				check("a refund")
			}
		} else {
			check("a refusal")
		}
		p.peek(anna, plan)
		check("a peek")
	}
	p.setNow(p.now.Add(7*ms + linger))
	if stored := p.Stored(); len(stored) > 0 {
		p.Errorf("after all windows there is still %v", stored)
	}
}

func logsStayShort(p *probe) {
	plan := p.plan(limit(5, 10*ms), gap(ms), userCap(3, 5*ms))
	for i := range 200 {
		p.at(time.Duration(i) * 500 * time.Microsecond)
		p.ask(anna, plan, p.token())
		for _, s := range p.Stored() {
			if s.Entries > 5 {
				p.Fatalf("%s holds %d admissions, the largest limit is 5", s.Name, s.Entries)
			}
		}
	}
}
