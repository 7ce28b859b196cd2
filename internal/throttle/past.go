package throttle

import "slices"

// Past is what was admitted in one category of a user, as far as it decides when the next may be: a log, or counters.
// The zero value is nothing.
type Past struct{ cell cell }

// CapPasts is what was admitted under the caps of a user, as far as it decides when the next may be: the log of the
// user's cap, and that of each named cap. The projections of a user's categories share it. The zero value is nothing.
type CapPasts struct{ logs map[string]*cell } // by name of the cap; that of the user's cap is empty

// log is the log of a cap.
func (c *CapPasts) log(name string) *cell {
	if c.logs == nil {
		c.logs = map[string]*cell{}
	}
	if c.logs[name] == nil {
		c.logs[name] = &cell{}
	}
	return c.logs[name]
}

// Adopt takes over from another reading of a user's caps those logs of which it has more.
func (c *CapPasts) Adopt(other *CapPasts) {
	for name, log := range other.logs {
		if mine := c.log(name); len(log.times) > len(mine.times) {
			mine.times = log.times
		}
	}
}

// Numbers gives the numbers of a script's reply one after another.
type Numbers interface {
	// Number is the next number; 0 when there is none, which the reader remembers.
	Number() int64
	// Count is the next number, which reports how many numbers or more follow; 0 when there are fewer.
	Count() int
}

// ReadPast reads what the Lua function put_past put for a plan: what was admitted in the category, and under its caps.
func (p Plan) ReadPast(reply Numbers) (*Past, *CapPasts) {
	category, caps := &Past{}, &CapPasts{}
	if p.Algorithm.KeepsLog() {
		category.cell.times = readLog(reply)
	} else {
		category.cell.readCounters(reply, p)
	}
	caps.log("").times = readLog(reply)
	for _, rules := range p.NamedCaps() {
		caps.log(rules[0].Cap).times = readLog(reply)
	}
	return category, caps
}

// readLog reads stretches of a log, newest first: where each begins, and its admissions. Of an admission between two
// stretches it is known that the next newer one that was read is not earlier. It stands in for it, so that no moment is
// planned too early.
func readLog(reply Numbers) []Micros {
	var newest []Micros
	for range reply.Count() {
		rank := min(int(reply.Number()), MaxMax)
		count := reply.Count()
		for len(newest) < rank && len(newest) > 0 {
			newest = append(newest, newest[len(newest)-1])
		}
		for i := range count {
			at := Micros(reply.Number())
			if rank+i >= len(newest) {
				newest = append(newest, at)
			} else {
				newest[rank+i] = min(newest[rank+i], at)
			}
		}
	}
	slices.Reverse(newest)
	return newest
}

// readCounters reads the moment from which a gap counts, and the counter of each limit. A moment below 0 is none.
func (c *cell) readCounters(reply Numbers, p Plan) {
	if gap := Micros(reply.Number()); gap >= 0 {
		c.gap, c.gapKnown = gap, true
	}
	for _, rule := range p.Rules {
		if rule.Kind != KindLimit {
			continue
		}
		from, load := Micros(reply.Number()), float64(reply.Number())
		if from >= 0 {
			c.limits = append(c.limits, limitCounter{rule, counter{from: from, load: load, open: true}})
		}
	}
}
