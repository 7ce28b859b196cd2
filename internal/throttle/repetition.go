package throttle

import (
	"math/bits"
	"slices"
	"sort"
)

// maxMicros is later than anything.
const maxMicros = Micros(1<<63 - 1)

// repetition watches whether planned admissions repeat themselves: until a closed interval or a period of the calendar
// begins, the rules do not know the time of day. A rule of the calendar decides nothing meanwhile, unless it lets no
// more pass until then; see Projection.left.
type repetition struct {
	// period is how many admissions the slowest rule allows in its window, depth how many of the latest in a log decide
	// the next.
	period, depth int
	ends          Micros
	planned       []Micros
	// later is by how much each of the latest admissions, run of them, was later than the one a period before.
	later Micros
	run   int
	// counters are those at the end of the latest whole period.
	counters []counter
}

// repetitionFrom begins a repetition at a moment, for those who ask.
func (p *Projection) repetitionFrom(at Micros, who Asking) repetition {
	r := repetition{period: 1, depth: 1, ends: p.begins(at)}
	if !who.Exempt {
		for _, interval := range p.open {
			if interval.From > at {
				r.ends = min(r.ends, interval.From)
				break
			}
		}
	}
	slowest := Rule{Max: 1}
	for _, rule := range p.request.plan.Rules {
		if p.boundary(rule, at) < maxMicros || !rule.CountsOn(who.Channel) {
			continue
		}
		r.depth = max(r.depth, rule.Max)
		rule.Max = rule.MaxFor(who.Priority)
		if slower(rule, slowest) {
			slowest = rule
		}
	}
	r.period = slowest.Max
	return r
}

// begins is when the next period of a rule begins after a moment, as far as it is known.
func (p *Projection) begins(at Micros) Micros {
	next := maxMicros
	for _, rule := range p.request.plan.Rules {
		next = min(next, p.boundary(rule, at))
	}
	return next
}

// boundary is when the next period of one rule begins after a moment, as far as it is known.
func (p *Projection) boundary(r Rule, at Micros) Micros {
	if r.Period > 0 {
		for _, begins := range p.plan.Boundaries[r.Period-1] {
			if begins > at {
				return begins
			}
		}
	}
	return maxMicros
}

// slower reports whether rule a allows less than b in the long run: whether a.Per/a.Max > b.Per/b.Max.
func slower(a, b Rule) bool {
	ah, al := bits.Mul64(uint64(a.Per), uint64(b.Max))
	bh, bl := bits.Mul64(uint64(b.Per), uint64(a.Max))
	return ah > bh || ah == bh && al > bl
}

// after notes an admission. When from now on every admission will be later by a fixed time than the one a period before
// it, after returns that time, else 0.
//
// What decides is the latest admissions in the logs, the counters, and the moment of the latest admission. When all of
// these are as a period ago but for a shift, so is what follows.
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
	if r.run >= r.depth && same {
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

// left is how many of a head the rules of the calendar let pass before the next period begins.
func (p *Projection) left(at Micros, head Head) int {
	left, logs := MaxMax, make([]Log, 0, mostLogs)
	if p.request.plan.Algorithm.KeepsLog() {
		logs = append(logs, p.request.log(p.request.state, p.request.plan.CategoryRules()))
	}
	logs = p.request.capLogs(logs)
	for _, log := range logs {
		for _, r := range log.Rules {
			if !r.CountsOn(head.Channel) || p.boundary(r, at) == maxMicros {
				continue
			}
			from := Micros(0) // of what was admitted before the first period that is known, all counts in it
			for _, begins := range p.plan.Boundaries[r.Period-1] {
				if begins <= at {
					from = begins
				}
			}
			first := sort.Search(len(log.Admitted), func(i int) bool { return log.Admitted[i] >= from })
			left = min(left, r.MaxFor(head.Priority)-(len(log.Admitted)-first))
		}
	}
	return max(0, left)
}

// repeat plans the latest period again, so many times. Logs in which a rule of the calendar counts get every admission;
// of others it only moves those that decide the next.
func (p *Projection) repeat(seen *repetition, cycles int, head Head) {
	by, latest := Micros(cycles)*seen.later, seen.planned[len(seen.planned)-seen.period:]
	whole := p.begins(p.request.now) < maxMicros
	p.eachLog(head, func(log *cell) {
		if !whole {
			for i := max(0, len(log.times)-seen.depth); i < len(log.times); i++ {
				log.times[i] += by
			}
			return
		}
		log.times = slices.Grow(log.times, cycles*seen.period)
		for cycle := range cycles {
			for _, at := range latest {
				log.times = append(log.times, at+Micros(cycle+1)*seen.later)
			}
		}
	})
	p.request.now += by
	p.request.state.gap += by
	for i := range p.request.state.limits {
		p.request.state.limits[i].counter.from += by
	}
}
