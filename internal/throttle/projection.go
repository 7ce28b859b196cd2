package throttle

import (
	"cmp"
	"math/bits"
	"slices"
)

// Projection plans the admissions to come under a plan, each as early as it may be. It is [Next], step by step, but
// knows when the steps repeat themselves: after some of them the slowest rule decides, and from then on each is a fixed
// time after the one that came so many before it. So the hundred-thousandth costs hardly more than the hundredth.
//
// It is exact as long as the plan stays, and nothing else is admitted.
type Projection struct {
	request memoryRequest
	plan    Plan
	begin   Micros
	open    Closed // the plan's intervals for this user
	depth   int    // how many of the latest admissions of a log decide the next
	steps   int
	steady  bool // it goes step by step: the calendar does not repeat itself
}

// NewProjection makes a Projection for a key from now on. The pasts are those of the key's category and of its user's
// cap, and grow with what is planned; nil is nothing.
func NewProjection(now Micros, key Key, plan Plan, category, ofCap *Past) *Projection {
	category, ofCap = cmp.Or(category, &Past{}), cmp.Or(ofCap, &Past{})
	p := &Projection{
		request: memoryRequest{key: key, plan: plan, now: now, state: &category.cell, cap: &ofCap.cell},
		plan:    plan, begin: now, open: plan.For(key.User).Closed, depth: 1,
	}
	p.request.plan.Dormant, p.request.plan.Closed = nil, nil // those decide nothing, these are applied here
	for i := range plan.NamedCaps() {
		if i >= len(category.named) {
			category.named = append(category.named, &cell{})
		}
	}
	p.request.named = category.named
	for _, r := range plan.Rules {
		p.depth = max(p.depth, r.Max)
		p.steady = p.steady || r.Period > 0 || r.Kind == KindNamed
	}
	return p
}

// periodFor is how many admissions the slowest rule lets a head have in its window.
func (p *Projection) periodFor(head Head) int {
	slowest := Rule{Max: 1}
	for _, r := range p.request.plan.Rules {
		r.Max = r.MaxFor(head.Priority)
		if slower(r, slowest) {
			slowest = r
		}
	}
	return slowest.Max
}

// slower tells whether rule a allows less than b in the long run: whether a.Per/a.Max > b.Per/b.Max.
func slower(a, b Rule) bool {
	ah, al := bits.Mul64(uint64(a.Per), uint64(b.Max))
	bh, bl := bits.Mul64(uint64(b.Per), uint64(a.Max))
	return ah > bh || ah == bh && al > bl
}

// Asking is who asks for an admission.
type Asking struct {
	Head
	// Exempt says that closed intervals do not hold.
	Exempt bool
	// Expires is when it expires, see [Plan.Open]; 0 for never.
	Expires Micros
}

// Next is the earliest moment, not before now, at which one more may be admitted, and what decides it. A later now
// never gives an earlier moment.
func (p *Projection) Next(now Micros, who Asking) (at Micros, by Cause) {
	p.request.now = max(p.request.now, now)
	p.request.plan.Head = who.Head
	at, by = p.request.decide()
	if who.Exempt {
		return at, by
	}
	open := p.OpensAt(at, who.Expires)
	return open, Cause{Rule: by.Rule, Closed: open > at}
}

// OpensAt is the earliest moment, not before t, that is in no closed interval of the user, for what expires at a moment
// (0: never).
func (p *Projection) OpensAt(t, expires Micros) Micros {
	if expires == 0 {
		return p.open.Open(t)
	}
	return p.plan.Open(p.request.key.User, t, expires)
}

// Cause is what has the next one wait until a moment that Next gave, as seen from the beginning of the projection. What
// went before at the same moment waited for the same.
func (p *Projection) Cause(at Micros, who Asking) Cause {
	now := p.request.now
	p.request.now = p.begin
	from, by := p.Next(p.begin, who)
	p.request.now = now
	if from < at {
		return Cause{Rule: NoRule}
	}
	return by
}

// Admit plans an admission at a moment, whether or not the rules allow it.
func (p *Projection) Admit(at Micros) {
	p.steps++
	p.request.now = max(p.request.now, at)
	if p.request.plan.Algorithm.KeepsLog() {
		p.request.state.append(at)
	} else {
		p.request.state.chargeCounters(p.request.plan, at, "")
	}
	p.request.cap.append(at)
	for _, c := range p.request.named {
		c.append(at)
	}
}

// append adds an admission to a log, whatever it remembers.
func (c *cell) append(at Micros) {
	i := len(c.times)
	for i > 0 && c.times[i-1] > at { // a bypass may come before what is planned for later
		i--
	}
	c.times = slices.Insert(c.times, i, at)
}

// Advance plans up to n admissions, none of them at or after until, and returns how many it planned.
func (p *Projection) Advance(n int, who Asking, until Micros) int {
	seen := repetition{period: p.periodFor(who.Head)}
	for done := 0; done < n; {
		at, by := p.Next(p.request.now, who)
		if by.Closed { // what comes by the clock is no part of what repeats itself
			seen = repetition{period: seen.period}
		}
		if at >= until {
			return done
		}
		p.Admit(at)
		done++
		if len(p.request.plan.Rules) == 0 {
			return n // all of them go at this moment
		}
		if p.steady {
			continue
		}
		later := seen.after(p, at)
		if later == 0 {
			continue
		}
		last := min(until, p.opensUntil(at, who.Exempt)) - 1
		if cycles := min((n-done)/seen.period, int((last-at)/later)); cycles > 0 {
			p.shift(Micros(cycles) * later)
			done += cycles * seen.period
			seen = repetition{period: seen.period}
		}
	}
	return n
}

// opensUntil is when the next closed interval begins after a moment.
func (p *Projection) opensUntil(at Micros, exempt bool) Micros {
	if !exempt {
		for _, interval := range p.open {
			if interval.From > at {
				return interval.From
			}
		}
	}
	return maxMicros
}

// maxMicros is later than anything.
const maxMicros = Micros(1<<63 - 1)

// shift moves what decides the next admission to a later time.
func (p *Projection) shift(by Micros) {
	p.request.now += by
	for _, c := range []*cell{p.request.state, p.request.cap} {
		for i := max(0, len(c.times)-p.depth); i < len(c.times); i++ {
			c.times[i] += by
		}
		c.gap += by
		for i := range c.limits {
			c.limits[i].counter.from += by
		}
	}
}

// repetition watches whether planned admissions repeat themselves.
type repetition struct {
	period  int
	planned []Micros
	// run is for how many admissions in a row each was later than the one a period before by the same time.
	later Micros
	run   int
	// counters are those at the end of the latest whole period.
	counters []counter
}

// after notes an admission. When from now on every admission will be later by a fixed time than the one a period before
// it, after returns that time, else 0.
//
// What decides is the latest admissions in the logs, the counters, and the moment of the latest admission. When all of
// these are as a period ago but for a shift, so is what follows: the rules do not know the time of day. Closed
// intervals do, so it holds until the next one, and one that was passed begins a new repetition.
func (r *repetition) after(p *Projection, at Micros) Micros {
	r.planned = append(r.planned, at)
	before := len(r.planned) - 1 - r.period
	if before < 0 {
		return 0
	}
	if later := at - r.planned[before]; later != r.later {
		r.later, r.run = later, 0
	}
	r.run++
	if len(r.planned)%r.period != 0 {
		return 0
	}
	counters := p.request.state.countersAt(at)
	same := slices.Equal(counters, r.counters)
	r.counters = counters
	if r.run >= p.depth && same {
		return r.later
	}
	return 0
}

// countersAt are a cell's counters, with their moments relative to one.
func (c *cell) countersAt(at Micros) []counter {
	relative := make([]counter, 0, len(c.limits))
	for _, l := range c.limits {
		relative = append(relative, counter{from: l.counter.from - at, load: l.counter.load, open: l.counter.open})
	}
	return relative
}
