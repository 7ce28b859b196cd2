package calendar

import (
	"cmp"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// farthest is how many days ahead Next looks: more than a year, so that it finds each date of the coming year.
const farthest = 400

// Next lists the coming intervals in which the window is closed in a zone, beginning with one that has begun. known is
// how far the list reaches: what is beyond has to be asked again. A list that a window's dates and ranges end before
// that reaches more than a year ahead.
func (w Window) Next(at throttle.Micros, zone *time.Location) (closed throttle.Closed, known throttle.Micros) {
	today := dateOf(at.Time().In(zone))
	// Ranges that began yesterday may last until tomorrow, and all of a week may be needed to see an opening.
	const past = 8
	for days := 2 * past; ; days *= 2 {
		days = min(days, farthest)
		closed, known = w.between(today.plus(-past), days, zone)
		closed = slices.DeleteFunc(closed, func(i throttle.Interval) bool { return i.Until <= at })
		if len(closed) > throttle.MaxClosed {
			// Between the last one that is kept and the next it is open.
			closed, known = closed[:throttle.MaxClosed], closed[throttle.MaxClosed].From
		} else if days < farthest {
			continue
		}
		return slices.Clip(closed), known
	}
}

// between lists the closed intervals of so many days. The last day is no longer whole, so the list is known up to its
// beginning only.
func (w Window) between(first Date, days int, zone *time.Location) (closed throttle.Closed, known throttle.Micros) {
	begin, _ := first.readings(0, zone)
	known, _ = first.plus(days-1).readings(0, zone)
	var open throttle.Closed
	for i := range days {
		date := first.plus(i)
		for _, r := range w.Closed {
			closed = r.closed(closed, date, zone)
		}
		for _, r := range w.Open {
			open = r.open(open, date, zone)
		}
	}
	for _, date := range w.Dates {
		from, _ := date.readings(0, zone)
		_, until := date.plus(1).readings(0, zone)
		closed = append(closed, throttle.Interval{From: from, Until: until})
	}
	if len(w.Open) > 0 {
		closed = append(closed, gaps(union(open), begin, known)...)
	}
	closed = slices.DeleteFunc(union(closed), func(i throttle.Interval) bool {
		return i.Until <= begin || i.From >= known
	})
	return closed, known
}

// closed appends what the range closes on the day on which it begins: from the first moment at which the clock shows
// From to the last at which it shows To.
func (r Range) closed(all throttle.Closed, date Date, zone *time.Location) throttle.Closed {
	if !r.Days.Has(date.weekday()) {
		return all
	}
	from, _ := date.readings(r.From, zone)
	_, until := r.end(date).readings(r.To, zone)
	return append(all, throttle.Interval{From: from, Until: until})
}

// open appends what the range opens on the day on which it begins: from the last moment at which the clock shows From
// to the first at which it shows To.
func (r Range) open(all throttle.Closed, date Date, zone *time.Location) throttle.Closed {
	if !r.Days.Has(date.weekday()) {
		return all
	}
	_, from := date.readings(r.From, zone)
	until, _ := r.end(date).readings(r.To, zone)
	return append(all, throttle.Interval{From: from, Until: until})
}

// end is the date on which the range ends.
func (r Range) end(date Date) Date {
	if r.To > r.From {
		return date
	}
	return date.plus(1)
}

// Union returns the intervals in which a or b is closed, at most [throttle.MaxClosed] of them: the first.
func Union(a, b throttle.Closed) throttle.Closed {
	both := union(slices.Concat(a, b))
	return slices.Clip(both[:min(len(both), throttle.MaxClosed)])
}

// union sorts intervals, and makes one of those that overlap or touch. Empty ones are dropped.
func union(all throttle.Closed) throttle.Closed {
	all = slices.DeleteFunc(all, func(i throttle.Interval) bool { return i.From >= i.Until })
	slices.SortFunc(all, func(a, b throttle.Interval) int { return cmp.Compare(a.From, b.From) })
	var merged throttle.Closed
	for _, next := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || merged[last].Until < next.From:
			merged = append(merged, next)
		case merged[last].Until < next.Until:
			merged[last].Until = next.Until
		}
	}
	return merged
}

// gaps lists what lies between the intervals, from begin to end.
func gaps(all throttle.Closed, begin, end throttle.Micros) throttle.Closed {
	var gaps throttle.Closed
	for _, interval := range all {
		if begin < interval.From {
			gaps = append(gaps, throttle.Interval{From: begin, Until: interval.From})
		}
		begin = interval.Until
	}
	if begin < end {
		gaps = append(gaps, throttle.Interval{From: begin, Until: end})
	}
	return gaps
}
