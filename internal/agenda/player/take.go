package player

import (
	"math"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Granted is a grant.
type Granted struct {
	*Note
	// Slot is since when it might have gone: the last of all moments that it had to wait for.
	Slot throttle.Micros
	// Shadowed are the shadow rules that would have had it wait, a bit for each.
	Shadowed int64
}

// Taken is the result of one [Agenda.Take].
type Taken struct {
	Granted []Granted
	// More says that more may go at once; else it is time to come again at Next, or never when that is 0.
	More bool
	Next throttle.Micros
}

// Take grants what may go at a moment, up to a limit, in the categories that the worker knows of; nil for all. When it
// does not know all that are needed, it has to come again with them.
func (a *Agenda) Take(now throttle.Micros, known []string, limit int) Taken {
	a.now, a.excused, a.overflowed = now, 0, 0
	for len(a.later) > 0 && a.later[0].Due <= now {
		n := a.later[0]
		a.later, n.Held = a.later[1:], false
		a.track(n.Category).enter(n, n.bypasses)
	}
	for _, b := range a.tracks {
		if len(b.notes) > 0 && known != nil && !slices.Contains(known, b.category) {
			return Taken{Next: now}
		}
	}
	for _, b := range a.tracks {
		if len(b.notes) > 0 {
			a.track(b.category)
		}
		b.first.known, b.looked, b.granted = false, false, 0
		if b.paused && b.served() {
			b.paused, b.ready = false, min(now, b.ready)
		}
	}
	var t Taken
	for b := a.nextToGo(); b != nil; b = a.nextToGo() {
		if len(t.Granted) >= limit {
			t.More = true
			break
		}
		t.Granted = append(t.Granted, b.grant())
	}
	a.conclude(&t)
	return t
}

// served reports whether something of a backlog may be granted.
func (b *Backlog) served() bool { return len(b.notes) > 0 && b.pausedUntil() <= b.agenda.now }

// nextToGo returns the backlog whose first goes: by priority and arrival among those that may go now, else the one that
// may soonest within the horizon. When a first ends, all are looked at again: what comes first now stands further
// behind.
func (a *Agenda) nextToGo() *Backlog {
	for {
		if b, again := a.turnOf(); !again {
			return b
		}
	}
}

func (a *Agenda) turnOf() (soonest *Backlog, again bool) {
	a.turn = a.turn[:0]
	for _, b := range a.tracks {
		if b.short() {
			return nil, false
		}
		if b.served() {
			a.turn = append(a.turn, b)
		}
	}
	if len(a.turn) > 1 {
		slices.SortFunc(a.turn, func(x, y *Backlog) int { return inOrder(x.notes[0], y.notes[0]) })
	}
	for _, b := range a.turn {
		first := b.notes[0]
		if !b.decideFirst() || b.notes[0] != first {
			return nil, true
		}
		if b.first.at <= a.now {
			return b, false
		}
		if b.first.at <= a.now.Add(throttle.Horizon) && (soonest == nil || b.first.at < soonest.first.at) {
			soonest = b
		}
	}
	return soonest, false
}

// decideFirst finds out when the first of a backlog may go; what would wait for longer than it may, or is due in a
// closed interval that ends it, ends. It returns false when nothing is left.
func (b *Backlog) decideFirst() bool {
	a := b.agenda
	for len(b.notes) > 0 {
		first := b.notes[0]
		if first.expired(a.now) && !first.ghost {
			a.expire(first, notification.ReasonExpired)
			continue
		}
		b.looked = true
		b.first = b.decide(first)
		reason := ""
		switch drops := b.settings.Drops && !b.settings.exempts(first.Priority); {
		case first.ghost:
			reason = notification.ReasonMaxDefer
		case first.MaxWait != nil && b.first.at.Sub(first.WaitsSince()) > *first.MaxWait:
			reason = notification.ReasonTooLate
		case b.settings.bypasses(first.Priority):
		case b.first.at.Sub(first.WaitsSince()) > b.settings.MaxDefer:
			reason = notification.ReasonMaxDefer
		case drops && b.first.at <= a.now.Add(throttle.Horizon) && !b.isOpen(b.first.at):
			reason = notification.ReasonQuietHours
		}
		if reason == "" {
			if len(b.settings.Overflow) > 0 && (ladder{b}).overflowFirst(first, b.first.at.Sub(first.WaitsSince())) {
				continue
			}
			return true
		}
		first.slot, first.decided = b.first.at, true
		a.expire(first, reason)
	}
	b.first.known = false
	return false
}

// decide is when the first of a backlog may go.
func (b *Backlog) decide(first *Note) decision {
	a := b.agenda
	if b.settings.bypasses(first.Priority) {
		return decision{true, b.window.Bypass(a.now, first.head()), throttle.Cause{Rule: throttle.NoRule}}
	}
	from, company := max(a.now, b.granted), b.companyUntil(first)
	at, rule := b.window.Next(max(from, company), first.head())
	d := decision{known: true, at: at, by: throttle.Cause{Rule: rule}}
	if b.waitsForHours(first) {
		if opens := b.settings.Plan.Open(a.cfg.User, at, first.Expires); opens > at {
			d.at, d.by.Closed = opens, true
		}
	}
	if company > from && rule == throttle.NoRule {
		d.by.Rule = throttle.DigestRule
	}
	return d
}

// waitsForHours reports whether a notification waits for the end of closed intervals.
func (b *Backlog) waitsForHours(n *Note) bool {
	return len(b.settings.Plan.Closed) > 0 && !b.settings.Drops && !b.settings.exempts(n.Priority)
}

// isOpen reports whether a moment is in no closed interval of the user.
func (b *Backlog) isOpen(at throttle.Micros) bool {
	return b.settings.Plan.Open(b.agenda.cfg.User, at, 0) == at
}

// grant has the first of a backlog go.
func (b *Backlog) grant() Granted {
	a := b.agenda
	n, at := b.notes[0], b.first.at
	g := Granted{Note: n, Slot: b.slot(n)}
	if !b.settings.bypasses(n.Priority) {
		g.Shadowed = b.window.Shadowed(a.now, at, n.head())
	}
	items := b.company(n)
	a.leave(n)
	b.granted, b.first.known = max(b.granted, at), false
	n.Status, n.Admitted, n.Leased, n.lapsed = notification.StatusSending, at, at.Add(a.cfg.Lease), 0
	a.cfg.Going(n)
	n.Generation++
	a.flight = append(a.flight, n)
	b.join(n, items)
	b.window.Charge(a.now, at, n.head(), n.Token())
	return g
}

// slot is since when the first of a backlog might have gone, at the latest at the moment of its grant.
func (b *Backlog) slot(n *Note) throttle.Micros {
	a := b.agenda
	bound := throttle.Micros(0)
	switch {
	case !b.settings.bypasses(n.Priority):
		company := b.companyUntil(n)
		bound = max(company, b.window.Bound(max(a.now, b.granted, company), n.head()))
		if b.waitsForHours(n) {
			bound = b.settings.Plan.Open(a.cfg.User, bound, n.Expires)
		}
		bound = max(bound, b.blocked)
	case b.first.at > a.now:
		bound = b.first.at
	}
	slot := max(n.WaitsSince(), n.retried, bound)
	if b.blocked == 0 {
		slot = max(slot, b.ready)
	}
	return min(slot, b.first.at)
}

// conclude decides how each backlog stands after the grants, and when the user's wake-up comes.
func (a *Agenda) conclude(t *Taken) {
	consider := func(at throttle.Micros) {
		if t.Next == 0 || at < t.Next {
			t.Next = at
		}
	}
	for _, b := range a.tracks {
		until := b.heldUntil()
		if until <= a.now && b.looked {
			b.endOverdue()
		}
		switch {
		case b.short():
			t.More = true
		case len(b.notes) == 0:
		case until > a.now:
			b.unblock(a.now)
			if b.paused, b.ready = true, until; until < math.MaxInt64 {
				consider(until)
			}
		case b.first.known && b.first.at > a.now.Add(throttle.Horizon):
			if b.block() {
				consider(b.firstLeaves())
			} else {
				t.More = true
			}
		default:
			t.More = true
			if b.first.known {
				b.unblock(a.now)
			}
		}
		b.tidy()
	}
	if len(a.later) > 0 {
		consider(a.later[0].Due)
	}
}

// firstLeaves is when the first of a backlog goes, or expires: what stands behind it may go then.
func (b *Backlog) firstLeaves() throttle.Micros {
	if first := b.notes[0]; first.Expires > 0 && !first.ghost {
		return min(b.first.at, first.Expires)
	}
	return b.first.at
}

func (b *Backlog) heldUntil() throttle.Micros {
	if b.settings == nil || len(b.notes) == 0 {
		return b.agenda.now
	}
	return b.pausedUntil()
}

// endOverdue ends whatever waits in a backlog and can't go within max_defer, since nothing goes before the first does.
// It looks in each second in which the moment of the first moves.
func (b *Backlog) endOverdue() {
	at := b.agenda.now
	if b.first.known {
		at = max(at, b.first.at)
	}
	const second = throttle.Micros(time.Second / time.Microsecond)
	if len(b.notes) < 2 || at.Sub(b.oldest) <= b.settings.MaxDefer ||
		at-b.agenda.now < second && at/second == b.blocked/second {
		return
	}
	b.oldest = math.MaxInt64
	for _, n := range slices.Clone(b.notes) {
		if !b.settings.bypasses(n.Priority) && at.Sub(n.WaitsSince()) > b.settings.MaxDefer {
			b.giveUp(n, at)
		} else {
			b.oldest = min(b.oldest, n.WaitsSince())
		}
	}
}

// Earliest is the first moment at which something may go; false when nothing will. While something waits, the wake-up
// of the user comes no later.
func (a *Agenda) Earliest(now throttle.Micros) (at throttle.Micros, found bool) {
	a.now = now
	consider := func(n *Note, moment throttle.Micros) {
		if moment = max(moment, now); !n.expired(moment) && (!found || moment < at) {
			at, found = moment, true
		}
	}
	for _, b := range a.tracks {
		if len(b.notes) == 0 {
			continue
		}
		until := a.track(b.category).pausedUntil() // nothing goes before what stands before it
		for i, n := range b.notes {
			as := *n
			if i > 0 {
				as.Expires = 0 // only the first goes before its user begins again
			}
			b.granted = 0
			slot := b.decide(&as).at
			if b.settings.bypasses(n.Priority) {
				slot = now
			}
			goes := max(slot, until)
			consider(n, goes)
			if n.expired(goes) {
				goes = max(n.Expires, until)
			}
			until = goes
		}
	}
	for _, n := range a.later {
		consider(n, n.Due)
	}
	if found {
		at = max(at, a.excused)
	}
	return at, found
}
