package throttle

import (
	"math"
	"time"
)

// counter is what [FixedWindow] and [TokenBucket] keep of one limit. The functions on it are the specification of the
// two algorithms, as [Next] is of the rolling one: pure, and in the arithmetic of Lua's numbers, so that both sides
// compute the same.
type counter struct {
	// from is the begin of the window, or for a bucket the moment of its debt.
	from Micros
	// load is the number of admissions in the window, or the bucket's debt: what it lacks to be full, in units of
	// which a token has Per (in µs) and each µs brings Max. So it is a whole number, and nothing is rounded away as
	// long as Max·Per is below 2⁵³.
	load float64
	// owed is what was charged beyond an empty bucket since it last had a token: a refund gives that back first.
	owed float64
	// since is the latest moment of what was admitted before the limit was known: a refund of that takes nothing out.
	since Micros
	// open is false before the first admission.
	open bool
}

// free is the earliest moment that the limit allows, which may lie before now.
func (c counter) free(algorithm Algorithm, r Rule, now Micros) Micros {
	if algorithm == TokenBucket {
		return c.bucketFree(r, now)
	}
	return c.windowFree(r, now)
}

// charge counts an admission. A bucket is not turned back: one that comes after a grant for a later moment counts at
// that moment. Else the bucket could overflow and be less empty at that moment than it was.
func (c counter) charge(algorithm Algorithm, r Rule, at Micros) counter {
	if algorithm == TokenBucket {
		at = max(at, c.from)
		load, full := c.debt(r, at)+units(r), float64(float64(r.Max)*units(r))
		if load > full {
			return counter{from: at, load: full, owed: c.owed + load - full, since: c.since, open: true}
		}
		return counter{from: at, load: load, since: c.since, open: true}
	}
	if !c.open || at >= c.from+r.micros() {
		return counter{from: at, load: 1, since: c.since, open: true}
	}
	c.load++
	return c
}

// refund takes out the admission made at a moment. It reports whether the limit counted it still. A bucket gets back no
// more than what its refill since then cannot have replaced anyway: without the admission it might have been full
// meanwhile, and what flows into a full bucket is lost.
func (c counter) refund(algorithm Algorithm, r Rule, at Micros) (counter, bool) {
	if !c.open || at <= c.since || c.load <= 0 {
		return c, false
	}
	if algorithm == FixedWindow {
		if at < c.from || at >= c.from+r.micros() {
			return c, false
		}
		c.load--
		return c, true
	}
	back := units(r) - float64(float64(max(0, c.from-at))*float64(r.Max))
	if back <= 0 {
		return c, false
	}
	paid := min(back, c.owed)
	c.owed -= paid
	c.load = max(0, c.load-(back-paid))
	return c, true
}

// usage is how many admissions the limit counts now, and when the next of them stops counting.
func (c counter) usage(algorithm Algorithm, r Rule, now Micros) (used int, frees Micros) {
	if algorithm == TokenBucket {
		debt := c.debt(r, now)
		if debt == 0 {
			return 0, 0
		}
		whole := math.Ceil(debt / units(r))
		return int(whole), now + Micros(math.Ceil((debt-float64((whole-1)*units(r)))/float64(r.Max)))
	}
	if !c.open || now >= c.from+r.micros() || c.load == 0 {
		return 0, 0
	}
	return int(c.load), c.from + r.micros()
}

func (c counter) windowFree(r Rule, now Micros) Micros {
	if !c.open || now >= c.from+r.micros() {
		return now
	}
	if c.load < float64(r.Max) {
		return c.from
	}
	return c.from + r.micros()
}

func (c counter) bucketFree(r Rule, now Micros) Micros {
	if !c.open {
		return now
	}
	lacking := c.load + units(r) - float64(float64(r.Max)*units(r))
	return c.from + Micros(math.Ceil(lacking/float64(r.Max)))
}

// debt is what a bucket lacks at a moment. The explicit conversions keep the compiler from fusing a product into the
// sum around it, which would round differently.
func (c counter) debt(r Rule, at Micros) float64 {
	if !c.open {
		return 0
	}
	return max(0, c.load-float64(float64(at-c.from)*float64(r.Max)))
}

// passed tells whether nothing counts any more at a moment, or the bucket is full.
func (c counter) passed(algorithm Algorithm, r Rule, at Micros) bool {
	if algorithm == TokenBucket {
		return c.debt(r, at) == 0
	}
	return !c.open || at >= c.from+r.micros()
}

// lacks is all that a bucket was charged and did not get back.
func (c counter) lacks() float64 { return c.load + c.owed }

// inherited is the bucket with which another limit over the same window begins. What is more than its own size it owes.
func (c counter) inherited(r Rule) counter {
	lacks := c.lacks()
	c.load = min(lacks, float64(float64(r.Max)*units(r)))
	c.owed = lacks - c.load
	return c
}

// units is a token in the units of a bucket's debt.
func units(r Rule) float64 { return float64(r.Per / time.Microsecond) }
