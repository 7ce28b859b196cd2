package throttletest

import (
	"math/rand/v2"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// MostWithin is the largest number of moments, given in order, that any half-open window of a length holds.
func MostWithin(per time.Duration, moments []throttle.Micros) int {
	most, oldest := 0, 0
	for i, m := range moments {
		for moments[oldest].Add(per) <= m {
			oldest++
		}
		most = max(most, i-oldest+1)
	}
	return most
}

// hammer asks at random moments for a while and returns when it was admitted.
func hammer(p *probe, plan throttle.Plan, attempts int, step time.Duration) []throttle.Micros {
	p.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var admitted []throttle.Micros
	for range attempts {
		p.setNow(p.now + throttle.Micros(random.Int64N(step.Microseconds())))
		if d := p.ask(anna, plan, p.token()); d.Allowed {
			admitted = append(admitted, d.At)
		}
	}
	return admitted
}

// twiceLessOne shows both sides of what counters guarantee: 2·Max−1 in a window does happen, and more does not.
func twiceLessOne(p *probe) {
	const n = 4
	per := 40 * ms
	plan := p.plan(limit(n, per))
	var admitted []throttle.Micros
	take := func(count int) {
		for range count {
			p.pass(anna, plan, 1)
			admitted = append(admitted, p.now)
		}
		p.refused(anna, plan)
	}
	if p.Algorithm == throttle.FixedWindow {
		p.pass(anna, plan, 1)
		p.at(per - time.Microsecond)
		take(n - 1)
		p.at(per)
		take(n)
	} else {
		take(n)
		for i := 1; i < n; i++ {
			p.at(time.Duration(i) * per / n)
			take(1)
		}
	}
	if most := MostWithin(per, admitted); most != 2*n-1 {
		p.Errorf("the worst case made %d in one window, the documentation says %d", most, 2*n-1)
	}
	p.at(time.Second)
	for _, attempts := range []time.Duration{ms, 5 * ms, 30 * ms} {
		if most := MostWithin(per, hammer(p, plan, 200, attempts)); most > 2*n-1 {
			p.Errorf("%d in one window, want at most %d", most, 2*n-1)
		}
	}
}
