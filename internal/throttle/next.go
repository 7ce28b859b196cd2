package throttle

import "sort"

// Log is the admissions that a set of rules counts, oldest first.
type Log struct {
	Rules    []Rule
	Admitted []Micros
	// Priority is that of the admission that is asked for, see [Rule.MaxFor].
	Priority int
	// Boundaries are those of the periods that rules of the calendar count in.
	Boundaries Boundaries
}

// NoRule is the rule of a decision that no rule limits.
const NoRule = -1

// Next is the specification of the rolling limiter: the earliest moment, not before now and in no closed interval, at
// which one more admission keeps every rule of every log, and what decides it; the rule is an index over the rules of
// all logs in order:
//
//	next = open( max( now, max over rules ( admitted[len−Max] + Per ) ) )
//
// where Max is what is left for the priority of the one that asks. For a rule of the calendar the next boundary after
// admitted[len−Max] takes the place of the sum. Under a rule with a reserve nobody goes before what was granted ahead:
// the less urgent was judged by less, and without the one that asks.
//
// It is exact: when the Max-th newest admission is at least Per old, fewer than Max admissions share any window with
// the new one, and [Closed.Open] only moves it to later. And it is optimal to go as soon as one may, because every
// bound grows with the earlier times, and so does what opens. Of several rules that give the same moment, the first is
// returned. The Lua limiter must agree with Next on every trace.
func Next(now Micros, closed Closed, logs ...Log) (at Micros, by Cause) {
	at, rule := Bound(now, logs...)
	if at <= now {
		at, rule = now, NoRule
	}
	open := closed.Open(at)
	return open, Cause{Rule: rule, Closed: open > at}
}

// Bypass is when one goes that no rule holds: now. Only when some rule is full it waits for what was granted ahead,
// which was judged without it, and goes right after that.
func Bypass(now Micros, logs ...Log) Micros {
	if at, _ := Bound(now, logs...); at <= now {
		return now
	}
	return behindGrantedAhead(now, logs...)
}

// behindGrantedAhead is the earliest moment, not before now, that is after all that was granted ahead. What lies beyond
// [Horizon] was written before the clock was set back; it may go at any moment until then.
func behindGrantedAhead(now Micros, logs ...Log) Micros {
	at := now
	for _, log := range logs {
		if n := len(log.Admitted); n > 0 && log.Admitted[n-1] > now {
			at = max(at, min(log.Admitted[n-1]+1, now.Add(Horizon)))
		}
	}
	return at
}

// Bound is [Next] without closed intervals: the earliest moment at which one more admission keeps every rule, which may
// have passed, and the rule that decides it; 0 and [NoRule] when no rule bounds it.
func Bound(now Micros, logs ...Log) (at Micros, rule int) {
	rule = NoRule
	index := 0
	for _, log := range logs {
		for _, r := range log.Rules {
			if free := log.bound(r, now); free > at {
				at, rule = free, index
			}
			index++
		}
	}
	return at, rule
}

// bound is the earliest moment that a rule over the log allows; 0 when it allows any.
func (l Log) bound(r Rule, now Micros) (at Micros) {
	if most := r.MaxFor(l.Priority); len(l.Admitted) >= most {
		at = r.frees(l.Admitted[len(l.Admitted)-most], l.Boundaries)
	}
	if r.Reserve != (Reserve{}) {
		at = max(at, l.grantedAhead(now))
	}
	return at
}

// grantedAhead is the moment of the newest admission that was granted ahead, by up to [Horizon]; 0 when there is none.
// What lies further ahead was written before the clock was set back.
func (l Log) grantedAhead(now Micros) Micros {
	i := sort.Search(len(l.Admitted), func(i int) bool { return l.Admitted[i] > now.Add(Horizon) })
	if i == 0 || l.Admitted[i-1] <= now {
		return 0
	}
	return l.Admitted[i-1]
}
