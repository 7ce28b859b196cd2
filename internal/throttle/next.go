package throttle

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
// admitted[len−Max] takes the place of the sum.
//
// It is exact: when the Max-th newest admission is at least Per old, fewer than Max admissions share any window with
// the new one, and [Closed.Open] only moves it to later. And it is optimal to go as soon as one may, because every
// bound grows with the earlier times, and so does what opens. Of several rules that give the same moment, the first is
// returned. The Lua limiter must agree with Next on every trace.
func Next(now Micros, closed Closed, logs ...Log) (at Micros, by Cause) {
	at, rule := Bound(logs...)
	if at <= now {
		at, rule = now, NoRule
	}
	open := closed.Open(at)
	return open, Cause{Rule: rule, Closed: open > at}
}

// Bound is [Next] without now and closed intervals: the earliest moment at which one more admission keeps every rule,
// which may have passed, and the rule that decides it; 0 and [NoRule] when no rule bounds it.
func Bound(logs ...Log) (at Micros, rule int) {
	rule = NoRule
	index := 0
	for _, log := range logs {
		for _, r := range log.Rules {
			if most := r.MaxFor(log.Priority); len(log.Admitted) >= most {
				if free := r.frees(log.Admitted[len(log.Admitted)-most], log.Boundaries); free > at {
					at, rule = free, index
				}
			}
			index++
		}
	}
	return at, rule
}
