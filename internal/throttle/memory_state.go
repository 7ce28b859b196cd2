package throttle

import (
	"slices"
	"time"
)

// farAhead is how far ahead of the clock an admission can be. What is further ahead was written before the clock was
// set back.
const farAhead = Micros(10 * time.Second / time.Microsecond)

// Horizon is how far ahead of the limiter's clock a slot may be granted, for its own moment. When the clock is set
// back, earlier admissions count as that far ahead.
const Horizon = 40 * time.Millisecond

// cell is the state of one key of [Memory], the counterpart of one key in Redis: the log of a rolling plan or of a cap,
// or the counters of another plan.
type cell struct {
	name cellName
	// expires is the last millisecond in which the cell counts.
	expires int64
	// due and index are the cell's place in the order of expiry; due may be earlier than expires.
	due   int64
	index int

	// log is that of a rolling plan or a cap.
	admissionLog

	// For counters: the latest admission's token and moment, the moment from which a gap counts, and each limit, see
	// sameCounter.
	token    string
	latest   Micros
	gap      Micros
	gapKnown bool
	before   Micros // from when a gap counts once the last admission is refunded
	limits   []limitCounter
}

// cellName tells cells apart.
type cellName struct {
	user, category string
	named          string // of a named cap
	algorithm      Algorithm
	isCap          bool
}

// limitCounter is the counter of a limit.
type limitCounter struct {
	limit   Rule
	counter counter
}

// sameCounter reports whether two limits share a counter.
func sameCounter(algorithm Algorithm, a, b Rule) bool {
	return a.Per == b.Per && (a.Max == b.Max || !algorithms[algorithm].counting.own())
}

// maxWindows bounds how many windows of rules that are no longer in force a cell remembers.
const maxWindows = 64

// chargeLog adds an admission to the log under a plan with that largest max and longest per. All methods that only read
// take a nil cell as empty.
func (c *cell) chargeLog(most int, per time.Duration, now, at Micros, token string) {
	c.charge(most, per, now, at, token)
	c.expireAfter(now, lifetime(now, c.times[len(c.times)-1], c.longest))
}

// refundLog takes an admission out of the log.
func (c *cell) refundLog(token string) bool { return c != nil && c.refund(token) }

// counter is the counter of one limit. A bucket that was never charged begins with what the emptiest bucket of the same
// window lacks; everything that was admitted until now was before its time.
func (c *cell) counter(algorithm Algorithm, r Rule) counter {
	var emptiest counter
	if c == nil {
		return emptiest
	}
	for _, l := range c.limits {
		if sameCounter(algorithm, l.limit, r) {
			return l.counter
		}
		if l.limit.Per == r.Per && (!emptiest.open || l.counter.lacks() > emptiest.lacks()) {
			emptiest = l.counter
		}
	}
	begun := emptiest.inherited(r)
	begun.since = c.gap
	return begun
}

// bound is the earliest moment that a rule of a fixed window or bucket plan allows.
func (c *cell) bound(algorithm Algorithm, r Rule, now Micros) Micros {
	if r.Kind == KindGap {
		if c == nil || !c.gapKnown {
			return now
		}
		return c.gap + r.micros()
	}
	return algorithms[algorithm].counting.bound(c.counter(algorithm, r), r, now)
}

// chargeCounters charges every counter, also those of rules not in force, and returns when the last of them has passed.
func (c *cell) chargeCounters(plan Plan, at Micros, token string) (last Micros) {
	c.limits = c.remembered(plan, at)
	c.token, c.latest = token, at
	if c.gapKnown {
		c.before = max(c.before, min(c.gap, at))
	}
	c.gap, c.gapKnown = max(c.gap, at), true
	_, longest := plan.depth()
	counting := algorithms[plan.Algorithm].counting
	last = c.gap.Add(longest)
	for i, l := range c.limits {
		charged := counting.charge(l.counter, l.limit, at)
		c.limits[i].counter = charged
		last = max(last, charged.from.Add(max(l.limit.Per, longest)))
	}
	return last
}

// limits are the limits that a plan charges. Of those that share a counter it is the one in force, else a dormant one.
func (p Plan) limits() []Rule {
	var limits []Rule
	for _, r := range p.Rules {
		if r.Kind == KindLimit {
			limits = append(limits, r)
		}
	}
	for _, r := range p.Dormant {
		if !hasCounter(p.Algorithm, limits, r) {
			limits = append(limits, Rule{Max: r.Max, Per: r.Per})
		}
	}
	return limits
}

// hasCounter reports whether one of the limits shares its counter with r.
func hasCounter(algorithm Algorithm, limits []Rule, r Rule) bool {
	return slices.ContainsFunc(limits, func(known Rule) bool { return sameCounter(algorithm, known, r) })
}

// remembered is the counters of a plan's limits, and of limits that are no longer in the plan and have not passed. When
// there are too many, it leaves these out.
func (c *cell) remembered(plan Plan, at Micros) []limitCounter {
	limits := plan.limits()
	counters := make([]limitCounter, 0, len(limits)+len(c.limits))
	for _, r := range limits {
		counters = append(counters, limitCounter{r, c.counter(plan.Algorithm, r)})
	}
	for _, l := range c.limits {
		if !hasCounter(plan.Algorithm, limits, l.limit) {
			counters = append(counters, l)
		}
	}
	tooMany := len(counters) > maxWindows
	past := slices.DeleteFunc(counters[len(limits):], func(l limitCounter) bool {
		return tooMany || algorithms[plan.Algorithm].counting.passed(l.counter, l.limit, at)
	})
	return counters[:len(limits)+len(past)]
}

// refundCounters takes an admission out of every counter. It returns false when none of them still counted it.
func (c *cell) refundCounters(plan Plan, at Micros, token string) bool {
	found := false
	// Of the admissions before the last one, only the latest moment is known. It stays, so a second refund moves
	// nothing.
	if c.gapKnown && c.gap == at && c.before < at {
		c.gap = c.before
		found = slices.ContainsFunc(plan.Rules, func(r Rule) bool { return r.Kind == KindGap })
	}
	for i, l := range c.limits {
		refunded, counted := l.counter.refunded(algorithms[plan.Algorithm].counting, l.limit, at)
		c.limits[i].counter = refunded
		found = found || counted
	}
	if c.token == token {
		c.token = ""
	}
	return found
}

// repair moves what is too far ahead to the furthest slot that may be granted now.
func (c *cell) repair(now Micros, per time.Duration) {
	if c == nil {
		return
	}
	far, latest := now+farAhead, now.Add(Horizon)
	changed := c.pullBack(far, latest)
	if c.gapKnown && c.gap > far {
		c.gap, changed = latest, true
	}
	if c.before > far {
		c.before, changed = latest, true
	}
	for i := range c.limits {
		per = max(per, c.limits[i].limit.Per)
		if c.limits[i].counter.from > far {
			c.limits[i].counter.from, changed = latest, true
		}
		if c.limits[i].counter.since > far {
			c.limits[i].counter.since, changed = latest, true
		}
	}
	if changed {
		c.expireAfter(now, ceilMillis(farAhead+Micros(max(per, c.longest).Microseconds())))
	}
}

// expireAfter sets until when the cell counts, as PEXPIRE would.
func (c *cell) expireAfter(now Micros, milliseconds int64) {
	c.expires = milliseconds + int64(now)/1000
}

// expired reports whether the cell no longer counts, as a key in Redis at the same moment.
func (c *cell) expired(now Micros) bool { return int64(now)/1000 > c.expires }

// slack is how much longer, in ms, a cell lives than it is needed. It is that of a key in Redis, so that both forget a
// token at the same moment.
const slack = 1000

// lifetime is how long, in ms, a cell lives whose latest moment and longest window are these.
func lifetime(now, latest Micros, per time.Duration) int64 {
	return ceilMillis(latest-now+Micros(per.Microseconds())) + slack
}

// ceilMillis rounds up to milliseconds.
func ceilMillis(d Micros) int64 { return (int64(d) + 999) / 1000 }
