package throttle

import "slices"

// memoryRequest is one call of [Memory]: what it wants, when, and the state that it finds, nil where there is none. It
// is the counterpart of one run of a script.
type memoryRequest struct {
	key        Key
	plan       Plan
	now        Micros
	state, cap *cell
	named      []*cell  // of each of the plan's named caps
	namedRules [][]Rule // of each
}

// mostLogs is how many logs decide at most.
const mostLogs = 2 + MaxNamedCaps

// admittedAt is when the token was admitted, if that is remembered.
func (req *memoryRequest) admittedAt(token string) (Micros, bool) {
	if req.state != nil {
		if !req.plan.Algorithm.KeepsLog() {
			if req.state.token == token {
				return req.state.latest, true
			}
		} else if at, found := req.state.at[token]; found {
			return at, true
		}
	}
	for _, c := range append([]*cell{req.cap}, req.named...) {
		if c == nil {
			continue
		}
		if at, found := c.at[token]; found {
			return at, true
		}
	}
	return 0, false
}

// decide is the earliest moment that is open and that every rule allows, and what decides it.
func (req *memoryRequest) decide() (at Micros, by Cause) {
	at, rule := req.free()
	open := req.plan.Closed.Open(at)
	return open, Cause{Rule: rule, Closed: open > at}
}

// free is the earliest moment that every rule allows, and the rule behind it.
func (req *memoryRequest) free() (at Micros, rule int) {
	var logs [mostLogs]Log
	category := req.plan.CategoryRules()
	if req.plan.Algorithm.KeepsLog() {
		at, by := Next(req.now, nil, req.counted(logs[:0])...)
		return at, by.Rule
	}
	at, rule = req.now, NoRule
	for i, r := range category {
		if free := req.state.bound(req.plan.Algorithm, r, req.now); free > at {
			at, rule = free, i
		}
	}
	if capAt, capRule := Bound(req.now, req.counted(logs[:0])...); capAt > at {
		at, rule = capAt, len(category)+capRule
	}
	return at, rule
}

// bypass is [Bypass] for the state that the request finds. Counters know the newest admission only.
func (req *memoryRequest) bypass() Micros {
	if _, rule := req.free(); rule == NoRule {
		return req.now
	}
	var logs [mostLogs]Log
	counted := req.counted(logs[:0])
	if req.state != nil && req.state.gapKnown {
		counted = append(counted, Log{Admitted: []Micros{req.state.gap}})
	}
	return behindGrantedAhead(req.now, counted...)
}

// counted appends the logs that decide.
func (req *memoryRequest) counted(logs []Log) []Log {
	if req.plan.Algorithm.KeepsLog() {
		logs = append(logs, req.log(req.state, req.plan.CategoryRules()))
	}
	return req.capLogs(logs)
}

// log is a cell's admissions in the form that [Next] takes.
func (req *memoryRequest) log(c *cell, rules []Rule) Log {
	log := Log{Rules: rules, Priority: req.plan.Head.Priority, Boundaries: req.plan.Boundaries}
	if c != nil {
		log.Admitted = c.times
	}
	return log
}

// capLogs appends the logs of the user cap and of the named caps. Those that do not count on the channel are empty.
func (req *memoryRequest) capLogs(logs []Log) []Log {
	logs = append(logs, req.log(req.cap, req.plan.CapRules()))
	for i, rules := range req.namedRules {
		counted := req.named[i]
		if !rules[0].CountsOn(req.plan.Head.Channel) {
			counted = nil
		}
		logs = append(logs, req.log(counted, rules))
	}
	return logs
}

// decideNow is decide. A wait that no rule can cause means that the clock was set back; then it repairs the state
// first.
func (req *memoryRequest) decideNow() (at Micros, by Cause) {
	at, rule := req.free()
	if rule == NoRule || at-req.now <= req.plan.Rules[rule].micros()+farAhead {
		return req.decide()
	}
	_, per := req.plan.depth()
	req.state.repair(req.now, per)
	_, per = depth(req.plan.CapRules())
	req.cap.repair(req.now, per)
	for i, rules := range req.namedRules {
		_, per = depth(rules)
		req.named[i].repair(req.now, per)
	}
	return req.decide()
}

// charge counts an admission in the cells that exist.
func (req *memoryRequest) charge(at Micros, token string) {
	if req.state != nil {
		most, per := req.plan.depth()
		if req.plan.Algorithm.KeepsLog() {
			req.state.chargeLog(most, per, req.now, at, token)
		} else {
			req.state.expireAfter(req.now, lifetime(req.now, req.state.chargeCounters(req.plan, at, token), 0))
		}
	}
	if req.cap != nil {
		most, per := depth(req.plan.CapRules())
		req.cap.chargeLog(most, per, req.now, at, token)
	}
	for i, rules := range req.namedRules {
		if req.named[i] != nil && rules[0].CountsOn(req.plan.Head.Channel) {
			most, per := depth(rules)
			req.named[i].chargeLog(most, per, req.now, at, token)
		}
	}
}

// refund takes an admission out. Counters know only their latest token, the cap's log some more. Any other admission
// may have been refunded already.
func (req *memoryRequest) refund(token string, at Micros) bool {
	if !req.plan.Algorithm.KeepsLog() && req.state != nil {
		if _, known := req.admittedAt(token); !known {
			return false
		}
	}
	return req.removeAdmission(token, at)
}

// removeAdmission is refund for a caller who knows that the token was admitted at that moment, and calls once.
func (req *memoryRequest) removeAdmission(token string, at Micros) bool {
	found := false
	switch {
	case req.plan.Algorithm.KeepsLog():
		found = req.state.refundLog(token)
	case req.state != nil:
		found = req.state.refundCounters(req.plan, at, token)
	}
	found = req.cap.refundLog(token) || found
	for _, c := range req.named {
		found = c.refundLog(token) || found
	}
	return found
}

// usage is how far each rule is used.
func (req *memoryRequest) usage() []RuleUsage {
	usage := make([]RuleUsage, len(req.plan.Rules))
	for i, r := range req.plan.Rules {
		used, frees := req.ruleUsage(r)
		usage[i] = RuleUsage{Rule: r, Used: used, FreesAt: frees}
	}
	return usage
}

func (req *memoryRequest) ruleUsage(r Rule) (used int, frees Micros) {
	switch {
	case r.Kind == KindCap:
		return req.cap.rollingUsage(r, req.now, req.plan.Boundaries)
	case r.Kind == KindNamed:
		i := slices.IndexFunc(req.namedRules, func(rules []Rule) bool { return rules[0].Cap == r.Cap })
		return req.named[i].rollingUsage(r, req.now, req.plan.Boundaries)
	case req.plan.Algorithm.KeepsLog():
		return req.state.rollingUsage(r, req.now, req.plan.Boundaries)
	case r.Kind == KindGap:
		if req.state == nil || !req.state.gapKnown || req.now >= req.state.gap+r.micros() {
			return 0, 0
		}
		return 1, req.state.gap + r.micros()
	}
	return algorithms[req.plan.Algorithm].counting.usage(req.state.counter(req.plan.Algorithm, r), r, req.now)
}
