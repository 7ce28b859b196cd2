package throttle

import "math"

// tokenBucket is [TokenBucket]: a counter's load is the bucket's debt at the moment from, what it lacks to be full.
//
// The explicit conversions keep the compiler from fusing a product into the sum around it, which would round
// differently.
type tokenBucket struct{}

// own implements counting: each limit has a bucket of its own, since one that empties and refills with another limit
// does not know what this limit still counts.
func (tokenBucket) own() bool { return true }

func (tokenBucket) bound(c counter, r Rule, now Micros) Micros {
	if !c.open {
		return now
	}
	lacking := c.load + units(r) - float64(float64(r.Max)*units(r))
	return c.from + Micros(math.Ceil(lacking/float64(r.Max)))
}

// charge never moves a bucket back in time: an admission that comes after a grant for a later moment counts at that
// moment. Otherwise the bucket could overflow, and be fuller at that moment than it was.
func (b tokenBucket) charge(c counter, r Rule, at Micros) counter {
	at = max(at, c.from)
	load, full := b.debt(c, r, at)+units(r), float64(float64(r.Max)*units(r))
	if load > full {
		return counter{from: at, load: full, owed: c.owed + load - full, since: c.since, open: true}
	}
	return counter{from: at, load: load, since: c.since, open: true}
}

// refund gives back no more than what the refill since then cannot have replaced. Without the admission the bucket
// might have been full meanwhile, and what flows into a full bucket is lost. An admission later than the bucket's
// moment was made before the clock was set back: nobody knows what was refilled since, so nothing is given back.
func (tokenBucket) refund(c counter, r Rule, at Micros) (counter, bool) {
	if at > c.from {
		return c, false
	}
	back := units(r) - float64(float64(c.from-at)*float64(r.Max))
	if back <= 0 {
		return c, false
	}
	paid := min(back, c.owed)
	c.owed -= paid
	c.load = max(0, c.load-(back-paid))
	return c, true
}

func (b tokenBucket) usage(c counter, r Rule, now Micros) (used int, frees Micros) {
	debt := b.debt(c, r, now)
	if debt == 0 {
		return 0, 0
	}
	whole := math.Ceil(debt / units(r))
	return int(whole), now + Micros(math.Ceil((debt-float64((whole-1)*units(r)))/float64(r.Max)))
}

func (b tokenBucket) passed(c counter, r Rule, at Micros) bool { return b.debt(c, r, at) == 0 }

// debt is what a bucket lacks at a moment.
func (tokenBucket) debt(c counter, r Rule, at Micros) float64 {
	if !c.open {
		return 0
	}
	return max(0, c.load-float64(float64(at-c.from)*float64(r.Max)))
}
