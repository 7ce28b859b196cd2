package throttle

import "slices"

// Numbers gives the numbers of a script's reply one after another.
type Numbers interface {
	// Number is the next number; 0 when there is none, which the reader remembers.
	Number() int64
	// Count is the next number, which reports how many numbers or more follow; 0 when there are fewer.
	Count() int
}

// Read takes in what the Lua function put_past put for a category under a plan: what was admitted in it, and under its
// caps. Of a log that several plans have read, that with more admissions stays.
func (w *Windows) Read(category string, plan Plan, reply Numbers) {
	seen := w.Under(category, plan).request
	if plan.Algorithm.KeepsLog() {
		seen.state.know(readLog(reply))
	} else {
		seen.state.readCounters(reply, plan)
	}
	seen.cap.know(readLog(reply))
	for _, log := range seen.named {
		log.know(readLog(reply))
	}
}

// know has a log hold admissions, of which only the moments are known, unless it has more.
func (c *cell) know(times []Micros) {
	if c != nil && len(times) > len(c.times) {
		c.times, c.tokens = times, make([]string, len(times))
	}
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
	if gap := Micros(reply.Number()); c != nil && gap >= 0 {
		c.gap, c.gapKnown = gap, true
	}
	for _, rule := range p.Rules {
		if rule.Kind != KindLimit {
			continue
		}
		from, load := Micros(reply.Number()), float64(reply.Number())
		if c != nil && from >= 0 {
			c.limits = append(c.limits, limitCounter{rule, counter{from: from, load: load, open: true}})
		}
	}
}
