package throttle

// Log is the admissions that a set of rules counts, oldest first.
type Log struct {
	Rules    []Rule
	Admitted []Micros
}

// NoRule is the rule of a decision that no rule limits.
const NoRule = -1

// Next is the specification of the rolling limiter: the earliest moment, not before now, at which one more admission
// keeps every rule of every log, and the index (over the rules of all logs in order) of the rule that decides it, or
// [NoRule]:
//
//	next = max( now, max over rules ( admitted[len−Max] + Per ) )
//
// It is exact: when the Max-th newest admission is at least Per old, fewer than Max admissions share any window with
// the new one. And it is optimal to go as soon as one may, because every bound grows with the earlier times. Of several
// rules that give the same moment, the first is returned. The Lua limiter must agree with Next on every trace.
func Next(now Micros, logs ...Log) (at Micros, rule int) {
	if at, rule = Bound(logs...); at > now {
		return at, rule
	}
	return now, NoRule
}

// Bound is [Next] without now: the earliest moment at which one more admission keeps every rule, which may have passed,
// and the rule that decides it; 0 and [NoRule] when no rule bounds it.
func Bound(logs ...Log) (at Micros, rule int) {
	rule = NoRule
	index := 0
	for _, log := range logs {
		for _, r := range log.Rules {
			if len(log.Admitted) >= r.Max {
				if free := log.Admitted[len(log.Admitted)-r.Max].Add(r.Per); free > at {
					at, rule = free, index
				}
			}
			index++
		}
	}
	return at, rule
}
