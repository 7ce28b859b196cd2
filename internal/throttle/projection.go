package throttle

import (
	"cmp"
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
	steps   int
}

// NewProjection makes a Projection for a key from now on. The pasts are those of the key's category and of its user's
// caps, and grow with what is planned; nil is nothing.
func NewProjection(now Micros, key Key, plan Plan, category *Past, caps *CapPasts) *Projection {
	category, caps = cmp.Or(category, &Past{}), cmp.Or(caps, &CapPasts{})
	p := &Projection{
		request: memoryRequest{key: key, plan: plan, now: now, state: &category.cell, cap: caps.log("")},
		plan:    plan, begin: now, open: plan.For(key.User).Closed,
	}
	p.request.plan.Dormant, p.request.plan.Closed = nil, nil // those decide nothing, these are applied here
	p.request.namedRules = plan.NamedCaps()
	for _, rules := range p.request.namedRules {
		p.request.named = append(p.request.named, caps.log(rules[0].Cap))
	}
	return p
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
func (p *Projection) Admit(at Micros, who Asking) {
	p.steps++
	p.request.now = max(p.request.now, at)
	if !p.request.plan.Algorithm.KeepsLog() {
		p.request.state.chargeCounters(p.request.plan, at, "")
	}
	p.eachLog(who.Head, func(log *cell) { log.append(at) })
}

// eachLog calls do for the logs that count the admission of a head.
func (p *Projection) eachLog(head Head, do func(*cell)) {
	if p.request.plan.Algorithm.KeepsLog() {
		do(p.request.state)
	}
	if p.request.plan.capped() {
		do(p.request.cap)
	}
	for i, rules := range p.request.namedRules {
		if rules[0].CountsOn(head.Channel) {
			do(p.request.named[i])
		}
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
	var seen repetition
	for done := 0; done < n; {
		at, _ := p.Next(p.request.now, who)
		if at >= until {
			return done
		}
		p.Admit(at, who)
		done++
		if len(p.request.plan.Rules) == 0 {
			return n // all of them go at this moment
		}
		if done == 1 || at >= seen.ends {
			seen = p.repetitionFrom(at, who)
		}
		if later := seen.after(p, at); later > 0 {
			cycles := int((min(until, seen.ends) - 1 - at) / later)
			if cycles = min(cycles, (n-done)/seen.period, p.left(at, who.Head)/seen.period); cycles > 0 {
				p.repeat(&seen, cycles, who.Head)
				done += cycles * seen.period
				seen = p.repetitionFrom(p.request.now, who)
			}
		}
	}
	return n
}

// Last is the moment of the last admission that was planned, or that up to which Next was asked.
func (p *Projection) Last() Micros { return p.request.now }

// Behind is the projection as it would be if so many others went first, under the caps that it shares with them, from
// the moment on at which the next may go. This projection stays as it is.
func (p *Projection) Behind(n int, who Asking) *Projection {
	behind := *p
	behind.request.state, behind.request.cap = p.request.state.copied(), p.request.cap.copied()
	behind.request.named = nil
	for _, c := range p.request.named {
		behind.request.named = append(behind.request.named, c.copied())
	}
	caps := behind
	caps.request.state, caps.request.plan.Algorithm = &cell{}, Rolling
	caps.request.plan.Rules = slices.Clone(p.request.plan.Rules[p.request.plan.caps():])
	for i := range caps.request.plan.Rules {
		caps.request.plan.Rules[i].Channels = ""
	}
	caps.request.namedRules = caps.request.plan.NamedCaps()
	who.Head = Head{}
	caps.request.now, _ = behind.Next(p.request.now, who)
	caps.Advance(n, who, maxMicros)
	behind.request.now = caps.request.now
	return &behind
}

// copied is a copy of what decides, for a projection that goes on in another way.
func (c *cell) copied() *cell {
	copied := *c
	copied.times, copied.limits = slices.Clone(c.times), slices.Clone(c.limits)
	return &copied
}
