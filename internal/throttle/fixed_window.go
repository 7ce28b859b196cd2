package throttle

// fixedWindow is [FixedWindow]: a counter's from is the start of the window, its load the admissions in it.
type fixedWindow struct{}

// own implements counting: limits over the same window share a counter, since they count the same admissions.
func (fixedWindow) own() bool { return false }

func (w fixedWindow) bound(c counter, r Rule, now Micros) Micros {
	if w.passed(c, r, now) {
		return now
	}
	if c.load < float64(r.Max) {
		return c.from
	}
	return c.from + r.micros()
}

func (w fixedWindow) charge(c counter, r Rule, at Micros) counter {
	if w.passed(c, r, at) {
		return counter{from: at, load: 1, since: c.since, open: true}
	}
	c.load++
	return c
}

func (w fixedWindow) refund(c counter, r Rule, at Micros) (counter, bool) {
	if at < c.from || w.passed(c, r, at) {
		return c, false
	}
	c.load--
	return c, true
}

func (w fixedWindow) usage(c counter, r Rule, now Micros) (used int, frees Micros) {
	if w.passed(c, r, now) || c.load == 0 {
		return 0, 0
	}
	return int(c.load), c.from + r.micros()
}

func (fixedWindow) passed(c counter, r Rule, at Micros) bool {
	return !c.open || at >= c.from+r.micros()
}
