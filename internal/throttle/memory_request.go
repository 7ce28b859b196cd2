package throttle

// memoryRequest is one call of [Memory]: what it wants, when, and the state that it finds, nil where there is none. It
// is the counterpart of one run of a script.
type memoryRequest struct {
	key        Key
	plan       Plan
	now        Micros
	state, cap *cell
}

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
	if req.cap != nil {
		at, found := req.cap.at[token]
		return at, found
	}
	return 0, false
}

// decide is the earliest moment that every rule allows, and the rule behind it.
func (req *memoryRequest) decide() (at Micros, rule int) {
	if req.plan.Algorithm.KeepsLog() {
		return Next(req.now, req.state.log(req.plan.CategoryRules()), req.cap.log(req.plan.CapRules()))
	}
	at, rule = req.now, NoRule
	category := req.plan.CategoryRules()
	for i, r := range category {
		if free := req.state.bound(req.plan.Algorithm, r, req.now); free > at {
			at, rule = free, i
		}
	}
	if capAt, capRule := Next(at, req.cap.log(req.plan.CapRules())); capRule != NoRule {
		at, rule = capAt, len(category)+capRule
	}
	return at, rule
}

// decideNow is decide. A wait that no rule can cause means that the clock was set back; then it repairs the state
// first.
func (req *memoryRequest) decideNow() (at Micros, rule int) {
	at, rule = req.decide()
	if rule == NoRule || at-req.now <= req.plan.Rules[rule].micros()+farAhead {
		return at, rule
	}
	_, per := req.plan.depth()
	req.state.repair(req.now, per)
	_, per = depth(req.plan.CapRules())
	req.cap.repair(req.now, per)
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
	return req.cap.refundLog(token) || found
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
		return req.cap.rollingUsage(r, req.now)
	case req.plan.Algorithm.KeepsLog():
		return req.state.rollingUsage(r, req.now)
	case r.Kind == KindGap:
		if req.state == nil || !req.state.gapKnown || req.now >= req.state.gap+r.micros() {
			return 0, 0
		}
		return 1, req.state.gap + r.micros()
	}
	return algorithms[req.plan.Algorithm].counting.usage(req.state.counter(req.plan.Algorithm, r), r, req.now)
}
