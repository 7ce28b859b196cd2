package throttle

// question is one call of [Memory]: what is asked, when, and the state that it meets, nil where there is none. It is
// the counterpart of one run of a script.
type question struct {
	key        Key
	plan       Plan
	now        Micros
	state, cap *cell
}

// admittedAt is when the token was admitted, if that is remembered.
func (q *question) admittedAt(token string) (Micros, bool) {
	if q.state != nil {
		if q.plan.Algorithm != Rolling {
			if q.state.token == token {
				return q.state.latest, true
			}
		} else if at, found := q.state.at[token]; found {
			return at, true
		}
	}
	if q.cap != nil {
		at, found := q.cap.at[token]
		return at, found
	}
	return 0, false
}

// decide is the earliest moment that every rule allows, and the rule behind it.
func (q *question) decide() (at Micros, rule int) {
	if q.plan.Algorithm == Rolling {
		return Next(q.now, q.state.log(q.plan.CategoryRules()), q.cap.log(q.plan.CapRules()))
	}
	at, rule = q.now, NoRule
	category := q.plan.CategoryRules()
	for i, r := range category {
		if free := q.state.free(q.plan.Algorithm, r, q.now); free > at {
			at, rule = free, i
		}
	}
	if capAt, capRule := Next(at, q.cap.log(q.plan.CapRules())); capRule != NoRule {
		at, rule = capAt, len(category)+capRule
	}
	return at, rule
}

// judge is decide, after repairing what a clock that was set back has left behind: a wait that no rule can cause.
func (q *question) judge() (at Micros, rule int) {
	at, rule = q.decide()
	if rule == NoRule || at-q.now <= q.plan.Rules[rule].micros()+farAhead {
		return at, rule
	}
	_, per := q.plan.depth()
	q.state.mend(q.now, per)
	_, per = depth(q.plan.CapRules())
	q.cap.mend(q.now, per)
	return q.decide()
}

// charge counts an admission in cells that are there.
func (q *question) charge(at Micros, token string) {
	if q.state != nil {
		most, per := q.plan.depth()
		if q.plan.Algorithm == Rolling {
			q.state.admit(most, per, q.now, at, token)
		} else {
			q.state.expireAfter(q.now, lifetime(q.now, q.state.count(q.plan, at, token), 0))
		}
	}
	if q.cap != nil {
		most, per := depth(q.plan.CapRules())
		q.cap.admit(most, per, q.now, at, token)
	}
}

// refund takes an admission out. Counters know their latest token only, the cap's log some more; any other may have
// been refunded already.
func (q *question) refund(token string, at Micros) bool {
	if q.plan.Algorithm != Rolling && q.state != nil {
		if _, known := q.admittedAt(token); !known {
			return false
		}
	}
	return q.takeBack(token, at)
}

// takeBack is refund for a caller who knows that the token was admitted at that moment, and asks once.
func (q *question) takeBack(token string, at Micros) bool {
	found := false
	switch {
	case q.plan.Algorithm == Rolling:
		found = q.state.remove(token)
	case q.state != nil:
		found = q.state.uncount(q.plan, at, token)
	}
	return q.cap.remove(token) || found
}

// usage is how far each rule is used.
func (q *question) usage() []RuleUsage {
	usage := make([]RuleUsage, len(q.plan.Rules))
	for i, r := range q.plan.Rules {
		used, frees := q.ruleUsage(r)
		usage[i] = RuleUsage{Rule: r, Used: used, FreesAt: frees}
	}
	return usage
}

func (q *question) ruleUsage(r Rule) (used int, frees Micros) {
	switch {
	case r.Kind == KindCap:
		return q.cap.rollingUsage(r, q.now)
	case q.plan.Algorithm == Rolling:
		return q.state.rollingUsage(r, q.now)
	case r.Kind == KindGap:
		if q.state == nil || !q.state.gapKnown || q.now >= q.state.gap+r.micros() {
			return 0, 0
		}
		return 1, q.state.gap + r.micros()
	}
	return q.state.counter(q.plan.Algorithm, r).usage(q.plan.Algorithm, r, q.now)
}
