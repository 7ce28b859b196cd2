package agenda_test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// next is the earliest moment, not before another, at which its limits let the first of a backlog go, and the number of
// what is behind it: a rule, or below 0 a closed interval.
func (m *model) next(n *note, from int64, exempt bool) (at int64, number int) {
	found, by := throttle.Next(throttle.Micros(from), nil, m.limits(n, moments)...)
	number = by.Rule + 1
	if opens := m.open(n, found); !exempt && opens > found {
		return int64(opens), -1 - number
	}
	return int64(found), number
}

// bound is since when its limits let the first of a backlog go; 0 for ever.
func (m *model) bound(n *note, b *modelBacklog, exempt bool) int64 {
	logs, from := m.limits(n, kept), throttle.Micros(max(m.now, b.granted))
	at, _ := throttle.Bound(from, logs...)
	if exempt {
		return int64(at)
	}
	return int64(m.open(n, at))
}

// open is when the closed intervals let the first of a backlog go that may go at a moment otherwise.
func (m *model) open(n *note, at throttle.Micros) throttle.Micros {
	return m.settings[n.category].Plan.Open(n.user, at, throttle.Micros(n.expires))
}

// isOpen reports whether a moment is in no closed interval of a user.
func (m *model) isOpen(n *note, at int64) bool {
	return int64(m.settings[n.category].Plan.For(n.user).Closed.Open(throttle.Micros(at))) == at
}

// isExempt reports whether closed intervals do not hold for a notification.
func (m *model) isExempt(n *note) bool {
	return notification.Priority(n.priority).AtLeast(m.settings[n.category].ExemptFrom)
}

func (m *model) limits(n *note, read func([]admission) []throttle.Micros) []throttle.Log {
	plan := m.settings[n.category].Plan
	logs := []throttle.Log{
		{Rules: plan.CategoryRules(), Admitted: read(m.logs[n.category+":"+n.user]), Priority: n.priority, Boundaries: plan.Boundaries},
		{Rules: plan.CapRules(), Admitted: read(m.logs[n.user]), Priority: n.priority, Boundaries: plan.Boundaries},
	}
	for _, rules := range plan.NamedCaps() {
		log := throttle.Log{Rules: rules, Priority: n.priority, Boundaries: plan.Boundaries}
		if rules[0].CountsOn(n.channel) {
			log.Admitted = read(m.logs[capLog(rules[0].Cap, n.user)])
		}
		logs = append(logs, log)
	}
	return logs
}

// capLog is the name of the log of a named cap.
func capLog(name, user string) string { return "cap " + name + " " + user }

// isAhead reports whether a notification may go sooner than those that block its backlog: it comes before them, and
// some limit keeps a part for it or does not count it.
func (m *model) isAhead(n *note, b *modelBacklog) bool {
	return (len(b.notes) == 0 || inOrder(n, b.notes[0]) < 0) && m.settings[n.category].Plan.Overtakes(n.priority)
}

// kept are the moments of those that a log has not forgotten.
func kept(log []admission) []throttle.Micros {
	return moments(slices.DeleteFunc(slices.Clone(log), func(a admission) bool { return a.gone }))
}

// forget has a log forget what lies deeper than it has to keep.
func (m *model) forget(log string, rules []throttle.Rule) {
	all := m.logs[log]
	d := m.depths[log]
	if len(kept(all)) == 1 {
		d = depth{} // it has begun anew
	}
	for _, r := range rules {
		d = depth{newest: max(d.newest, r.Max), per: max(d.per, r.Per)}
	}
	m.depths[log] = d
	live := kept(all)
	if len(live) <= d.newest {
		return
	}
	upTo := min(int64(live[len(live)-1-d.newest]), m.now-micros(d.per))
	for i := range all {
		all[i].gone = all[i].gone || all[i].at <= upTo
	}
}

// unblock has what is in a backlog go when it may, since now or since it was to be unblocked.
func (m *model) unblock(b *modelBacklog) {
	if b.blocked > 0 {
		b.ready, b.blocked = min(m.now, b.blocked), 0
	}
}

func moments(log []admission) []throttle.Micros {
	all := make([]throttle.Micros, len(log))
	for i, a := range log {
		all[i] = throttle.Micros(a.at)
	}
	return all
}

// charge counts an admission in every log of the plan in force; refund takes it out.
func (m *model) charge(n *note, at int64) {
	plan := m.settings[n.category].Plan
	for _, log := range m.limits(n, kept) {
		if m.breaks(log, throttle.Micros(at)) {
			panic(fault(n.id + " is admitted before what was granted ahead, which it leaves no room for"))
		}
	}
	n.caps = nil
	for _, rules := range plan.NamedCaps() {
		if rules[0].CountsOn(n.channel) {
			n.caps = append(n.caps, rules[0].Cap)
		}
	}
	for _, log := range m.logsOf(n) {
		i, _ := slices.BinarySearchFunc(m.logs[log], at,
			func(a admission, at int64) int { return cmp.Compare(a.at, at+1) })
		m.logs[log] = slices.Insert(m.logs[log], i, admission{at: at, token: n.token()})
		switch log {
		case n.user:
			m.forget(log, plan.CapRules())
		case n.category + ":" + n.user:
			m.forget(log, slices.Concat(plan.CategoryRules(), plan.Dormant))
		default:
			for _, rules := range plan.NamedCaps() {
				if log == capLog(rules[0].Cap, n.user) {
					m.forget(log, rules)
				}
			}
		}
	}
}

// breaks reports whether an admission leaves no room for one that was granted ahead for a later moment.
func (m *model) breaks(log throttle.Log, at throttle.Micros) bool {
	all := log.Admitted
	for i, later := range all {
		if later <= at || int64(later) > m.now+modelHorizon {
			continue
		}
		log.Admitted = all[:i]
		alone, _ := throttle.Bound(later, log)
		log.Admitted = slices.Sorted(slices.Values(append(slices.Clone(all[:i]), at)))
		if after, _ := throttle.Bound(later, log); alone <= later && after > later {
			return true
		}
	}
	return false
}

func (m *model) refund(n *note) {
	for _, log := range m.logsOf(n) {
		m.logs[log] = slices.DeleteFunc(m.logs[log], func(a admission) bool { return a.token == n.token() })
	}
}

func (m *model) logsOf(n *note) []string {
	plan, logs := m.settings[n.category].Plan, []string(nil)
	if len(plan.CategoryRules())+len(plan.Dormant) > 0 {
		logs = append(logs, n.category+":"+n.user)
	}
	if len(plan.CapRules()) > 0 {
		logs = append(logs, n.user)
	}
	for _, name := range n.caps {
		logs = append(logs, capLog(name, n.user))
	}
	return logs
}

// channelIn reads the channel out of a payload of programs.
func channelIn(payload string) string {
	channel, _, _ := strings.Cut(strings.TrimPrefix(payload, `{"c":"`), `"`)
	return channel
}
