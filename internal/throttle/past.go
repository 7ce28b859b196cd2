package throttle

import (
	"fmt"
	"slices"
)

// Past is what was admitted under one key, as far as it decides when the next may be: a log, or counters. The zero
// value is nothing. The projections of a user's categories share the past of the user's cap.
type Past struct {
	cell  cell
	named []*cell // of a category: of each named cap that counts it
}

// PastOf is the past of a log with these admissions, oldest first.
func PastOf(admitted ...Micros) *Past {
	return &Past{cell: cell{admissionLog: admissionLog{times: admitted}}}
}

// Longer is the one of two readings of a log that has more of it.
func (p *Past) Longer(other *Past) *Past {
	if len(other.cell.times) > len(p.cell.times) {
		return other
	}
	return p
}

// ReadPast reads what the Lua function put_past put for a plan, from an index on, and returns the pasts of the category
// and of the cap, and the index after them.
func (p Plan) ReadPast(reply []any, i int) (category, ofCap *Past, after int, err error) {
	r := &pastReader{reply: reply, at: i}
	category = &Past{}
	if p.Algorithm.KeepsLog() {
		category.cell.times = r.log()
	} else {
		r.counters(&category.cell, p)
	}
	ofCap = &Past{}
	ofCap.cell.times = r.log()
	for range p.NamedCaps() {
		category.named = append(category.named, &cell{admissionLog: admissionLog{times: r.log()}})
	}
	return category, ofCap, r.at, r.fault
}

// pastReader reads numbers one after another.
type pastReader struct {
	reply []any
	at    int
	fault error
}

func (r *pastReader) number() int64 {
	if r.at < len(r.reply) {
		if n, ok := r.reply[r.at].(int64); ok {
			r.at++
			return n
		}
	}
	if r.fault == nil {
		r.fault = fmt.Errorf("field %d of %d is not a number of a limiter's past", r.at, len(r.reply))
	}
	return 0
}

// log reads stretches of a log, newest first: where each begins, and its admissions. Of an admission between two
// stretches it is known that the next newer one that was read is not earlier. It stands in for it, so that no moment is
// planned too early.
func (r *pastReader) log() []Micros {
	var newest []Micros
	for range r.number() {
		rank, count := int(r.number()), int(r.number())
		if r.fault != nil || rank < 0 || count < 0 || count > len(r.reply) || rank > MaxMax {
			return nil
		}
		for len(newest) < rank && len(newest) > 0 {
			newest = append(newest, newest[len(newest)-1])
		}
		for i := range count {
			at := Micros(r.number())
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

// counters reads the moment from which a gap counts, and the counter of each limit. A moment below 0 is none.
func (r *pastReader) counters(c *cell, p Plan) {
	if gap := Micros(r.number()); gap >= 0 {
		c.gap, c.gapKnown = gap, true
	}
	for _, rule := range p.Rules {
		if rule.Kind != KindLimit {
			continue
		}
		from, load := Micros(r.number()), float64(r.number())
		if from >= 0 {
			c.limits = append(c.limits, limitCounter{rule, counter{from: from, load: load, open: true}})
		}
	}
}
