package throttle

import "time"

// counting is what an algorithm without a log does with the counter of a limit. Its functions are the specification of
// the algorithm, as [Next] is that of rolling limits. They are pure, and compute in Lua's numbers, so that both sides
// come to the same result.
type counting interface {
	// own reports whether each limit has a counter of its own, or shares one with those over the same window.
	own() bool
	// bound is the earliest moment that the limit allows, which may lie before now.
	bound(c counter, r Rule, now Micros) Micros
	// charge counts an admission.
	charge(c counter, r Rule, at Micros) counter
	// refund takes an admission out. It reports whether the limit still counted it.
	refund(c counter, r Rule, at Micros) (counter, bool)
	// usage is how many admissions the limit counts now, and when the next of them stops counting.
	usage(c counter, r Rule, now Micros) (used int, frees Micros)
	// passed reports whether nothing counts any more.
	passed(c counter, r Rule, at Micros) bool
}

// counter is the state of one limit.
type counter struct {
	// from is the start of the window, or for a bucket the moment of its debt.
	from Micros
	// load is the number of admissions in the window, or the bucket's debt: what it lacks to be full. A token is Per
	// units (Per in µs), and each µs brings Max units. So the debt is a whole number, and nothing is rounded away while
	// Max·Per is below 2⁵³.
	load float64
	// owed is what was charged beyond an empty bucket since it last had a token. A refund gives that back first.
	owed float64
	// since is the latest admission from before the limit was known. A refund of such an admission takes nothing out.
	since Micros
	// open is false before the first admission.
	open bool
}

// refunded is the counter without the admission made at a moment. It reports whether the limit still counted it.
func (c counter) refunded(by counting, r Rule, at Micros) (counter, bool) {
	if !c.open || at <= c.since || c.load <= 0 {
		return c, false
	}
	return by.refund(c, r, at)
}

// lacks is everything that a bucket was charged and did not get back.
func (c counter) lacks() float64 { return c.load + c.owed }

// inherited is the bucket with which another limit over the same window begins. It owes what exceeds its own size.
func (c counter) inherited(r Rule) counter {
	lacks := c.lacks()
	c.load = min(lacks, float64(float64(r.Max)*units(r)))
	c.owed = lacks - c.load
	return c
}

// units is the size of a token in the units of a bucket's debt.
func units(r Rule) float64 { return float64(r.Per / time.Microsecond) }
