package player

import (
	"math"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Backlog holds what waits in one category of a user, in order.
type Backlog struct {
	agenda   *Agenda
	category string
	settings *Settings
	window   *throttle.Window // under the plan of the settings
	notes    []*Note
	// blocked is until when all in it that does not pass is deferred, by what; 0 for not.
	blocked throttle.Micros
	by      throttle.Cause
	capped  bool // by the user cap
	// inTime is how many of it could go within max_defer, as of when it was blocked.
	inTime int
	// passing are how many in it pass. fresh are those that were never deferred, and some that have left.
	passing int
	fresh   []*Note
	// oldest is since when nothing in it waits, or earlier.
	oldest throttle.Micros
	// ready is since when what is in it may go, as far as the end of a block or of a pause says so; paused while it is.
	ready  throttle.Micros
	paused bool
	// bundled says that it goes as digests until it is empty, see [Digest.Bundles].
	bundled bool
	first   decision
	// granted is the latest moment that the take at work granted in it; looked says that it decided anything.
	granted throttle.Micros
	looked  bool
	// unread are how many more wait behind last, and are not in notes; see [Agenda.Unread].
	unread int
	last   *Note
	ghosts int // see [Note.Probe]
}

// decision is when the first of a backlog may go, and what decides that.
type decision struct {
	known bool
	at    throttle.Micros
	by    throttle.Cause
}

// Category is that of the backlog.
func (b *Backlog) Category() string { return b.category }

// living is how many wait in it that have not ended.
func (b *Backlog) living() int { return len(b.notes) - b.ghosts }

// Notes are those that wait in it, in order.
func (b *Backlog) Notes() []*Note { return b.notes }

// Blocked is until when it is blocked and by what; 0 for not at all.
func (b *Backlog) Blocked() (throttle.Micros, throttle.Cause) { return b.blocked, b.by }

// Capped reports whether the user cap blocks it.
func (b *Backlog) Capped() bool { return b.blocked > 0 && b.capped }

// Deferred reports whether one that waits in it is deferred now.
func (b *Backlog) Deferred(n *Note) bool { return b.blocked > 0 && !n.passes }

// track is the backlog of a category, with the settings of the present moment.
func (a *Agenda) track(category string) *Backlog {
	var b *Backlog
	for _, one := range a.tracks {
		if one.category == category {
			b = one
		}
	}
	if b == nil {
		b = &Backlog{agenda: a, category: category, by: throttle.Cause{Rule: throttle.NoRule}, oldest: math.MaxInt64}
		a.tracks = append(a.tracks, b)
	}
	if settings := a.cfg.Settings(category); settings != b.settings {
		if b.window == nil || !b.settings.Plan.Equal(settings.Plan) {
			b.window = a.windows.Under(category, settings.Plan)
		}
		b.settings = settings
	}
	return b
}

// pausedUntil is until when nothing of the backlog is granted.
func (b *Backlog) pausedUntil() throttle.Micros {
	if b.settings.Removed {
		return math.MaxInt64
	}
	return b.agenda.now.Add(b.settings.Paused)
}

// enter puts a notification into its backlog. In a blocked one it is deferred, unless it passes.
func (b *Backlog) enter(n *Note, passes bool) {
	n.Status = notification.StatusQueued
	i, _ := slices.BinarySearchFunc(b.notes, n, inOrder)
	b.notes = slices.Insert(b.notes, i, n)
	if n.passes = !n.Deferred && (passes || b.blocked == 0); n.passes {
		b.passing++
		b.fresh = append(b.fresh, n)
	} else {
		b.agenda.deferOne(n)
	}
	b.oldest = min(b.oldest, n.WaitsSince())
	b.agenda.hold(n)
}

// deferOne notes that a notification is deferred, once.
func (a *Agenda) deferOne(n *Note) {
	if n.passes = false; !n.Deferred {
		n.Deferred = true
		a.cfg.Deferred(n)
	}
}

// remove takes a notification out.
func (b *Backlog) remove(n *Note) {
	i, _ := slices.BinarySearchFunc(b.notes, n, inOrder)
	b.notes = without(b.notes, i)
	if n.passes {
		n.passes = false
		b.passing--
	}
	if n.ghost {
		b.ghosts--
	}
}

// without takes one out of a list, at no cost when it is the first.
func without(notes []*Note, i int) []*Note {
	if i == 0 {
		return notes[1:]
	}
	return slices.Delete(notes, i, i+1)
}

// overtakes reports whether a notification may go sooner than those that block its backlog: it comes before them, and
// some limit keeps a part for it or does not count it, or it waits for no company.
func (b *Backlog) overtakes(n *Note) bool {
	return (len(b.notes) == 0 || inOrder(n, b.notes[0]) < 0) && b.settings.Overtakes(n.Priority)
}

// block has all of a backlog wait for what was decided of the first. What stands further behind than the limits can let
// go in time ends. It returns false when the first has ended, and another one is to be decided.
func (b *Backlog) block() bool {
	bounded := math.MaxInt
	if len(b.settings.Overflow) > 0 {
		first := false
		if bounded, first = (ladder{b}).shorten(); !first {
			return false
		}
	}
	b.inTime = b.most(b.agenda.now, b.settings.MaxDefer, b.settings.atOnce())
	b.unread = min(b.unread, max(0, b.inTime-b.living()))
	for i := len(b.notes) - 1; i >= 0 && b.living() > b.inTime; i-- {
		b.giveUp(b.notes[i], b.earliestOfLast(b.living()+b.unread))
	}
	d := b.settings.Digest
	if b.first.by.Rule == throttle.DigestRule {
		b.inTime = min(b.inTime, d.MaxItems-1) // one more may fill it
	}
	b.inTime = min(b.inTime, bounded)
	b.blocked, b.by = b.first.at, b.first.by
	b.bundled = b.bundled || b.by.Closed && (d == nil || !d.ByLadder)
	b.capped = !b.by.Closed && b.by.Rule >= 0 && b.by.Rule != throttle.DigestRule &&
		b.settings.Plan.Rules[b.by.Rule].Kind == throttle.KindCap
	for _, n := range b.fresh {
		if n.passes {
			b.agenda.deferOne(n)
		}
	}
	b.fresh, b.passing = b.fresh[:0], 0
	return true
}

// giveUp ends one that cannot go within max_defer: its slot would come at a moment or later.
func (b *Backlog) giveUp(n *Note, slot throttle.Micros) {
	switch {
	case !n.Probe:
		n.slot = slot
		b.agenda.expire(n, notification.ReasonMaxDefer)
	case !n.ghost:
		n.ghost = true
		b.ghosts++
	}
}

// most is how many the limits let go, so many at once, before a time is over, such as max_defer.
func (b *Backlog) most(now throttle.Micros, time time.Duration, atOnce int) int {
	most := 1 << 40
	left := max(0, now.Add(time).Sub(b.first.at))
	for i, r := range b.settings.Plan.Rules {
		if r.Channels == "" {
			per, begun := b.windowOf(i)
			most = min(most, r.Max*atOnce*(int(left/per)+1+begun))
		}
	}
	return most
}

// earliestOfLast is the earliest possible slot of the last of so many.
func (b *Backlog) earliestOfLast(size int) throttle.Micros {
	slot := b.first.at
	for i, r := range b.settings.Plan.Rules {
		if r.Channels == "" {
			per, begun := b.windowOf(i)
			slot = max(slot, b.first.at.Add(time.Duration(max(0, (size-1)/(r.Max*b.settings.atOnce())-begun))*per))
		}
	}
	return slot
}

// windowOf is how long a window of a rule is at least, and how many of them may have begun before the slot of the
// first: a counter's window may be nearly over then, or its bucket full, unless this rule decides the slot. Periods are
// at least half as long as they can be.
func (b *Backlog) windowOf(i int) (per time.Duration, begun int) {
	plan := b.settings.Plan
	r := plan.Rules[i]
	if r.Period > 0 {
		return r.Per / 2, 1
	}
	counter := !plan.Algorithm.KeepsLog() && r.Kind == throttle.KindLimit
	if counter && b.first.by != (throttle.Cause{Rule: i}) {
		return r.Per, 1
	}
	return r.Per, 0
}

// unblock has what is in a backlog go when it may, since now or since it was to be unblocked.
func (b *Backlog) unblock(now throttle.Micros) {
	if b.blocked > 0 {
		b.ready, b.blocked = min(now, b.blocked), 0
	}
}

// tidy ends a step: a backlog is blocked only while something in it is deferred, and an empty one is forgotten.
func (b *Backlog) tidy() {
	if b.passing == len(b.notes) {
		b.unblock(b.agenda.now)
	}
	if len(b.notes) == 0 {
		b.notes, b.fresh, b.ready, b.oldest = nil, b.fresh[:0], 0, math.MaxInt64
		b.paused, b.bundled = false, false
	}
}

// expire ends one that waits in a backlog. One that has expired ends of that.
func (a *Agenda) expire(n *Note, reason string) {
	if n.expired(a.now) && !n.ghost {
		reason = notification.ReasonExpired
	}
	a.leave(n)
	a.end(n, notification.StatusExpired, reason)
}

// Holds reports whether one that came into its backlog is deferred with it, so that nobody has to look before the
// backlog's moment: unless it comes first, and may go sooner than what came first until now, or there are more in it by
// now than can go within max_defer.
func (a *Agenda) Holds(n *Note) bool {
	b := a.track(n.Category)
	return b.Deferred(n) && b.notes[0] != n && b.living()+b.unread <= b.inTime
}
