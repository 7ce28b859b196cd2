package throttle

// Log is the admissions that a set of rules looks at, oldest first.
type Log struct {
	Rules    []Rule
	Admitted []Micros
}

// NoRule is the rule index of a decision that nothing limits.
const NoRule = -1

// Next is the specification of the rolling limiter: the earliest moment, not before now, at which one more admission
// keeps every rule of every log, and the index (over the rules of all logs in order) of the rule that decides it, or
// [NoRule]:
//
//	next = max( now, max over rules ( admitted[len−Max] + Per ) )
//
// It is exact, because the Max-th newest admission being at least Per old means that fewer than Max admissions share
// any window with the new one; and greedy-optimal, because every bound grows with the earlier times. Of several rules
// that give the same moment the first is named. The Lua limiter must agree with it on every trace.
func Next(now Micros, logs ...Log) (at Micros, rule int) {
	at, rule = now, NoRule
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

// Project feeds Next with its own results: the moments at which the next n admissions may happen if each goes as soon
// as it may. The k-th result is when the k-th notification in line is expected out, and the optimum that a drain is
// measured against. The logs are not changed.
func Project(now Micros, n int, logs ...Log) []Micros {
	own := make([]Log, len(logs))
	for i, log := range logs {
		own[i] = Log{Rules: log.Rules, Admitted: append(make([]Micros, 0, len(log.Admitted)+n), log.Admitted...)}
	}
	slots := make([]Micros, n)
	for k := range slots {
		at, _ := Next(now, own...)
		slots[k] = at
		for i := range own {
			own[i].Admitted = append(own[i].Admitted, at)
		}
		now = at
	}
	return slots
}
