package gate

import "time"

// trialFor is how long a call may take that tries whether a pause is over, before another one tries.
const trialFor = 10 * time.Second

// pause is a time in which a host is not called. When it is over, one call tries whether the host accepts
// notifications again, and the others wait for what becomes of it. The zero value is no pause.
type pause struct {
	since, until time.Time
	trial        time.Time // until then a call tries it
	// asked is true when the provider asked for this time. Responses to calls that it had before mean nothing then.
	asked bool
}

// wait is how long a call has to wait; with 0 it may go, and trial tells that it tries for the others.
func (p *pause) wait(now time.Time) (wait time.Duration, trial bool) {
	switch {
	case p.until.IsZero():
		return 0, false
	case now.Before(p.until):
		return p.until.Sub(now), false
	case now.Before(p.trial):
		return probeEvery, false
	}
	p.trial = now.Add(trialFor)
	return 0, true
}

// begin begins a pause, or lengthens it. Until a time that the provider named it stays, whatever a call gets that was
// under way then.
func (p *pause) begin(now time.Time, length time.Duration, asked bool) {
	if p.until.IsZero() {
		p.since = now
	}
	if p.asked && now.Before(p.until) {
		length, asked = max(length, p.until.Sub(now)), true
	}
	p.until, p.trial, p.asked = now.Add(length), time.Time{}, asked
}

// tried notes what became of the call that tries: without a response another one tries soon.
func (p *pause) tried(now time.Time, o outcome) {
	switch o {
	case notCalled:
		p.trial = time.Time{}
	case failed:
		p.trial = now.Add(probeEvery)
	case responded, slowed, dripping:
	}
}

// end ends the pause because of a response to a call that began then, and reports whether there was one. Any response
// ends it if its call began after the pause did; one that was under way already must be a delivery, and the provider
// must not have named the time.
func (p *pause) end(began time.Time, delivered bool) bool {
	if p.until.IsZero() || !began.After(p.since) && (p.asked || !delivered) {
		return false
	}
	*p = pause{}
	return true
}
