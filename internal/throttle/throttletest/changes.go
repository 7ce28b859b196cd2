package throttletest

import (
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// changeCases are about rules and clocks that change under a limiter.
func changeCases(f Features) []scenario {
	cases := []scenario{
		{"ASmallerLimitHoldsAtOnce", smallerLimit},
		{"AnotherAlgorithmStartsAnew", otherAlgorithm},
		{"ClockSetBackALittle", clockBackALittle},
		{"ClockSetBackFar", clockBackFar},
	}
	if f.Algorithm == throttle.TokenBucket {
		return append(cases, scenario{"NeverLongerThanOneToken", emissionInterval})
	}
	return cases
}

func smallerLimit(p *probe) {
	p.pass(anna, p.plan(limit(6, time.Second)), 5)
	smaller := p.plan(limit(2, time.Second))
	free := epoch.Add(time.Second)
	if p.Algorithm == throttle.TokenBucket {
		free = epoch.Add(time.Second / 2) // An empty bucket of two, and no emptier.
	}
	p.refuse(anna, smaller, 0, free)
	usage := p.peek(anna, smaller).Rules[0]
	if usage.Remaining() != 0 {
		p.Errorf("%d remain of %+v", usage.Remaining(), usage)
	}
	p.edge(anna, smaller)
}

// otherAlgorithm: each keeps its own state, so that a change cannot meet a key of another type.
func otherAlgorithm(p *probe) {
	plan := p.plan(limit(1, time.Second))
	p.pass(anna, plan, 1)
	for _, a := range throttle.Algorithms() {
		if a != p.Algorithm {
			p.pass(anna, throttle.Plan{Algorithm: a, Rules: plan.Rules}, 1)
		}
	}
	p.refused(anna, plan)
}

// clockBackALittle: within ten seconds what lies ahead is left where it is, and the limit holds on both sides.
func clockBackALittle(p *probe) {
	plan := p.plan(limit(2, time.Second), gap(100*ms), userCap(2, time.Second))
	p.at(5 * time.Second)
	p.pass(anna, plan, 1)
	p.at(0)
	if d := p.refused(anna, plan); d.At != epoch.Add(5*time.Second+100*ms) {
		p.Errorf("the gap ends at %s", p.since(d.At))
	}
	if p.RelativeExpiry {
		return
	}
	p.edge(anna, plan)
	if d := p.refused(anna, plan); d.At < epoch.Add(5500*ms) {
		p.Errorf("the window ends at %s", p.since(d.At))
	}
}

// clockBackFar: nobody waits longer than a window (and the ten seconds), and nobody is let in earlier than by a window
// that begins now.
func clockBackFar(p *probe) {
	plan := p.plan(limit(2, time.Minute), gap(time.Second), userCap(2, time.Minute))
	onlyCap := throttle.Plan{Rules: []throttle.Rule{userCap(2, time.Minute)}}
	for _, rules := range []throttle.Plan{plan, p.plan(limit(2, time.Minute)), onlyCap} {
		key := throttle.Key{User: p.token(), Category: "chat"}
		p.at(2 * time.Hour)
		p.pass(key, rules, 1)
		p.at(2*time.Hour + 30*time.Second)
		p.pass(key, rules, 1)
		p.at(time.Hour)
		var wait time.Duration
		for range 10 {
			d := p.ask(key, rules, p.token())
			if d.Allowed {
				break
			}
			wait += d.Wait()
			p.setNow(d.At)
		}
		least := time.Minute
		if p.Algorithm == throttle.TokenBucket && len(rules.CapRules()) == 0 {
			least = 0 // Half full already when the clock was set back.
		}
		if wait < least || wait > time.Minute+10*time.Second {
			p.Errorf("%v: waited %s after the clock was set back by an hour", rules, wait)
		}
		for _, s := range p.Stored() {
			if s.Expires == 0 {
				p.Errorf("%s never expires", s.Name)
			}
		}
	}
}

func emissionInterval(p *probe) {
	plan := p.plan(limit(7, 100*ms))
	interval := 14286 * time.Microsecond // 100 ms / 7, rounded up
	for i := range 1000 {
		p.at(time.Duration(i) * 313 * time.Microsecond)
		if d := p.ask(anna, plan, p.token()); d.Wait() > interval {
			p.Fatalf("attempt %d has to wait %s for one token", i, d.Wait())
		}
	}
}
