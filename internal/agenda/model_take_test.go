package agenda_test

import (
	"slices"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// The settings of the stores of a model's world, in µs.
const (
	modelHorizon = 40_000
	modelHold    = 1_500_000
	modelLease   = 15_000_000
)

// taking is the result of one wake-up.
type taking struct {
	grants []granting
	// more tells that it goes back to the queue at once; else it comes at a moment, or never when that is 0.
	more   bool
	moment int64
}

// granting is what a grant says.
type granting struct {
	id                                       string
	at, slot                                 int64
	generation, attempt, failures, deferrals int
}

// take grants what may go now of a user in the categories that the wake-up knows of, up to a limit.
func (m *model) take(user string, known []string, limit int) taking {
	a := m.agenda(user)
	a.excused = 0
	for _, n := range slices.Clone(a.later) {
		if n.due <= m.now {
			a.later = slices.DeleteFunc(a.later, func(o *note) bool { return o == n })
			n.held = false
			m.enter(n, n.bypasses)
		}
	}
	for category, b := range a.backlogs {
		if len(b.notes) > 0 && !slices.Contains(known, category) {
			return taking{moment: m.now} // it is asked again at once, with all categories
		}
	}
	t := taking{}
	for _, b := range a.backlogs {
		b.decided, b.looked, b.granted = false, false, 0
		if m.served(b.category, known) {
			m.resume(b)
		}
	}
	for {
		b := m.nextToGo(a, known)
		if b == nil {
			break
		}
		if len(t.grants) >= limit {
			t.more = true
			break
		}
		t.grants = append(t.grants, m.grant(b))
		b.decided = false
	}
	m.conclude(a, &t)
	return t
}

func (m *model) served(category string, known []string) bool {
	return slices.Contains(known, category) && m.paused[category] <= m.now
}

// nextToGo returns the backlog whose first goes: by priority and arrival among those that may go now, else the one that
// may soonest within the horizon. When a first ends, all are looked at again: what comes first now stands further
// behind.
func (m *model) nextToGo(a *modelAgenda, known []string) *modelBacklog {
	b, again := m.contenderToGo(a, known)
	for again {
		b, again = m.contenderToGo(a, known)
	}
	return b
}

func (m *model) contenderToGo(a *modelAgenda, known []string) (due *modelBacklog, again bool) {
	var contenders []*modelBacklog
	for _, b := range a.backlogs {
		if len(b.notes) > 0 && m.served(b.category, known) {
			contenders = append(contenders, b)
		}
	}
	slices.SortFunc(contenders, func(x, y *modelBacklog) int { return inOrder(x.notes[0], y.notes[0]) })
	var soonest *modelBacklog
	for _, b := range contenders {
		first := b.notes[0]
		if !m.decideFirst(b) || b.notes[0] != first {
			return nil, true
		}
		if b.at <= m.now {
			return b, false
		}
		if b.at <= m.now+modelHorizon && (soonest == nil || b.at < soonest.at) {
			soonest = b
		}
	}
	return soonest, false
}

// decideFirst finds out when the first of a backlog may go; what would wait for longer than it may ends. False when
// nothing is left.
func (m *model) decideFirst(b *modelBacklog) bool {
	settings := m.settings[b.category]
	for m.endExpiredFirst(b); len(b.notes) > 0; m.endExpiredFirst(b) {
		first := b.notes[0]
		b.decided, b.looked = true, true
		if notification.Priority(first.priority).AtLeast(settings.BypassFrom) {
			b.at, b.rule, b.bound = int64(throttle.Bypass(throttle.Micros(m.now), m.limits(first, kept)...)), 0, 0
			if b.at > m.now {
				b.bound = b.at
			}
			return true
		}
		drops := settings.Drops && !m.isExempt(first)
		b.at, b.rule = m.next(first, max(m.now, b.granted), m.isExempt(first) || drops)
		b.bound = max(m.bound(first, b, m.isExempt(first) || drops), b.blocked)
		overdue := b.at-first.waitsSince() > micros(settings.MaxDefer)
		dropped := drops && b.at <= m.now+modelHorizon && !m.isOpen(first, b.at)
		if !overdue && !dropped {
			return true
		}
		m.end(first)
	}
	return false
}

// end has one of a backlog expire; the backlog stays, though it may be empty.
func (m *model) end(n *note) {
	m.leave(n)
	m.finish(n, 'E')
}

func (m *model) endExpiredFirst(b *modelBacklog) {
	for len(b.notes) > 0 && b.notes[0].expired(m.now) {
		m.end(b.notes[0])
	}
	b.decided = false
}

func (m *model) grant(b *modelBacklog) granting {
	n, at := b.notes[0], b.at
	slot := m.slot(b)
	m.leave(n)
	b.granted = max(b.granted, at)
	n.state, n.admitted, n.leased = 's', at, at+modelLease
	n.generation++
	n.lapsed = 0
	m.charge(n, at)
	m.counts["attempts"]++
	return granting{n.id, at, slot, n.generation, n.generation - n.returned, n.failures, n.deferrals}
}

// resume ends the pause of a backlog that is served again.
func (m *model) resume(b *modelBacklog) {
	if b.paused {
		b.paused, b.ready = false, min(m.now, b.ready)
	}
}

// slot is since when the first of a backlog might have gone, at the latest now: the last of all moments that it had to
// wait for.
func (m *model) slot(b *modelBacklog) int64 {
	n := b.notes[0]
	slot := max(n.accepted, n.notBefore, n.retried, b.bound)
	if b.blocked == 0 {
		slot = max(slot, b.ready)
	}
	return min(slot, b.at)
}

// conclude decides how each backlog stands after the grants, and when the user's wake-up comes.
func (m *model) conclude(a *modelAgenda, t *taking) {
	consider := func(at int64) {
		if t.moment == 0 || at < t.moment {
			t.moment = at
		}
	}
	for category, b := range a.backlogs {
		if m.paused[category] <= m.now && b.looked {
			m.endOverdue(b)
		}
		switch {
		case len(b.notes) == 0:
		case m.paused[category] > m.now:
			m.unblock(b)
			b.paused, b.ready = true, m.paused[category]
			consider(m.paused[category])
		case b.decided && b.at > m.now+modelHorizon:
			m.block(b)
			consider(b.at)
		default:
			t.more = true
			if b.decided {
				m.unblock(b)
			}
		}
	}
	for _, n := range a.later {
		consider(n.due)
	}
	m.checkWaits(a, t)
}

// checkWaits is the promise that nobody waits for longer than max_defer, and a sweep: whoever stays goes, or is looked
// at, before.
func (m *model) checkWaits(a *modelAgenda, t *taking) {
	if t.more {
		return
	}
	const sweep = 1_000_000
	for category, b := range a.backlogs {
		for _, n := range b.notes {
			bypasses := notification.Priority(n.priority).AtLeast(m.settings[category].BypassFrom)
			latest := n.waitsSince() + micros(m.settings[category].MaxDefer) + sweep
			if m.paused[category] <= m.now && !bypasses && max(m.now, b.blocked) > latest {
				panic(fault(n.id + " waits for longer than max_defer"))
			}
		}
	}
}

// endOverdue ends whatever waits in a backlog and can't go within max_defer, since nothing goes before the first does.
// It looks in each second in which the moment of the first moves.
func (m *model) endOverdue(b *modelBacklog) {
	at, most := m.now, micros(m.settings[b.category].MaxDefer)
	if b.decided {
		at = max(at, b.at)
	}
	const second = 1_000_000
	if len(b.notes) < 2 || at-m.now < second && at/second == b.blocked/second {
		return
	}
	for _, n := range slices.Clone(b.notes) {
		if !notification.Priority(n.priority).AtLeast(m.settings[b.category].BypassFrom) && at-n.waitsSince() > most {
			m.end(n)
		}
	}
}

// block has all of a backlog wait. What stands further behind than the limits can let go in time ends.
func (m *model) block(b *modelBacklog) {
	settings := m.settings[b.category]
	rules, most := settings.Plan.Rules, 1<<40
	for _, r := range rules {
		if r.Channels != "" {
			continue
		}
		left := max(0, m.now+micros(settings.MaxDefer)-b.at)
		if r.Period > 0 {
			most = min(most, r.Max*int(2*left/micros(r.Per)+2))
		} else {
			most = min(most, r.Max*int(left/micros(r.Per)+1))
		}
	}
	for len(b.notes) > most {
		m.end(b.notes[len(b.notes)-1])
	}
	b.blocked, b.blockedBy, b.capped = b.at, b.rule, false
	if b.rule > 0 {
		b.capped = rules[b.rule-1].Kind == throttle.KindCap
	}
	for _, n := range b.notes {
		m.deferOne(n)
	}
}

// dispositionLetters are the states that end a notification.
var dispositionLetters = map[dispatch.Disposition]byte{
	dispatch.Delivered: 'D', dispatch.Failed: 'F', dispatch.Expired: 'E', dispatch.Cancelled: 'C',
	dispatch.Replaced: 'R',
}

// settle writes what became of a grant, and reports whether it was no longer the worker's.
func (m *model) settle(id string, generation int, o dispatch.Outcome) (stale bool) {
	n := m.notes[id]
	if n.state == 0 || n.generation != generation {
		return true
	}
	plain := (o.Disposition == dispatch.Delivered || o.Disposition == dispatch.Failed) && !o.Refund
	switch {
	case n.state == 'q' && o.Disposition != dispatch.Returned && n.lapsed == generation:
		m.leave(n)
		n.crashes--
	case n.state == 'q':
		return true
	case n.state != 's':
		return plain && n.state != dispositionLetters[o.Disposition]
	}
	n.lapsed = 0
	m.became(n, o)
	return false
}

func (m *model) became(n *note, o dispatch.Outcome) {
	if o.Refund {
		m.refund(n)
	}
	if o.Failure {
		n.failures++
	}
	due, disposition := m.now+micros(o.RetryAfter), o.Disposition
	untried := o.Disposition == dispatch.Returned || o.Disposition == dispatch.Retry && o.Untried
	if disposition == dispatch.Retry && n.expired(due) {
		disposition, untried = dispatch.Expired, false
	}
	back := disposition == dispatch.Retry || disposition == dispatch.Returned
	if back && m.superseded(n) {
		disposition = dispatch.Replaced
	}
	if untried {
		n.returned++
		m.counts["attempts"]--
	}
	switch disposition {
	case dispatch.Retry:
		n.state, n.due, n.retried, n.held = 'r', due, due, o.Untried
		if o.Failure {
			n.failedUntil = due
		}
		if o.Behind {
			m.last++
			n.place = m.last
		}
		m.agenda(n.user).later = append(m.agenda(n.user).later, n)
		if n.collapse != "" && m.keyed[n.collapseName()] == nil {
			m.keyed[n.collapseName()] = n
		}
	case dispatch.Returned:
		m.enter(n, n.bypasses)
		if o.RetryAfter > 0 {
			m.agenda(n.user).excused = due
		}
	case dispatch.Forgotten:
		n.state = 0
		m.counts["attempts"]--
	default:
		m.finish(n, dispositionLetters[disposition])
	}
}
