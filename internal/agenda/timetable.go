package agenda

import (
	"cmp"
	"math"
	"slices"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// timetable plans when what waits for a user goes, in the order in which the take script grants it: of all backlogs the
// one whose first may go soonest and, of several at the same moment, the one whose first has the first place.
type timetable struct {
	begin  throttle.Micros
	now    throttle.Micros
	tracks []*track
	later  []arrival // by the moment at which they are due
	gone   int       // how many have gone
	asks   int       // how many of those that are asked for have yet to go
	steps  int
}

// maxSteps is how many steps a timetable takes at most with several backlogs in it. Then it goes on with each by
// itself, as if nothing waited in the others: a moment may be too early from there on.
const maxSteps = 20_000

// track is a backlog and what decides when its first goes.
type track struct {
	settings   Settings
	projection *throttle.Projection
	queue      []standing // in order
}

// standing is so many notifications that stand in a backlog from a place on, or one that is asked for.
type standing struct {
	place int64
	count int
	asked *asked
}

// asked is a notification that is asked for, and the result.
type asked struct {
	// refuses names the limit for which a moment is too late, of one that may go since another. Then it is left out.
	// Defaults to none.
	refuses func(since, at throttle.Micros) string
	due     throttle.Micros
	expires throttle.Micros // 0 for never

	at      throttle.Micros // 0 while it is not known
	by      throttle.Cause
	until   throttle.Micros // the end of what by says
	ahead   int
	refused string
	dropped bool // it ends then, since it is due in quiet hours that end it
}

// arrival is what joins its backlog when it is due.
type arrival struct {
	standing

	due   throttle.Micros
	track *track
}

// never is later than anything.
const never = throttle.Micros(math.MaxInt64)

// plan goes on until all that are asked for have gone.
func (t *timetable) plan() {
	slices.SortStableFunc(t.later, func(a, b arrival) int { return cmp.Compare(a.due, b.due) })
	for t.asks = t.asked(); t.asks > 0; {
		if t.steps++; t.steps > maxSteps && len(t.tracks) > 1 {
			t.planApart()
			return
		}
		first, at, next := t.first()
		if len(t.later) > 0 && (first == nil || t.later[0].due <= at) {
			t.arrive()
			continue
		}
		if first == nil {
			return
		}
		if head := first.queue[0]; head.asked != nil {
			t.goes(first, head.asked, at)
			continue
		}
		t.advance(first, at, next)
	}
}

// asked counts what is asked for and has yet to go.
func (t *timetable) asked() (n int) {
	for _, l := range t.tracks {
		for _, s := range l.queue {
			if s.asked != nil {
				n++
			}
		}
	}
	for _, a := range t.later {
		if a.asked != nil {
			n++
		}
	}
	return n
}

// planApart plans the tracks that are asked for, each by itself.
func (t *timetable) planApart() {
	tracks, later := t.tracks, t.later
	for _, l := range tracks {
		t.tracks = []*track{l}
		t.later = slices.DeleteFunc(slices.Clone(later), func(a arrival) bool { return a.track != l || a.asked == nil })
		t.plan()
	}
}

// first returns the track whose first goes next, and when; and when the first of another track goes at the earliest.
func (t *timetable) first() (first *track, at, next throttle.Micros) {
	at, next = never, never
	for _, l := range t.tracks {
		if len(l.queue) == 0 {
			continue
		}
		when := l.next(t.now)
		if first == nil || when < at || when == at && l.queue[0].place < first.queue[0].place {
			first, at, next = l, when, at
		} else {
			next = min(next, when)
		}
	}
	return first, at, next
}

// band is how far apart the places of two priorities are, as in agenda.lua.
const band = 1 << 51

// priority is that of what stands at a place.
func (s standing) priority() notification.Priority { return notification.Priority(s.place/band) + 1 }

// next returns when the first of a track goes.
func (l *track) next(now throttle.Micros) throttle.Micros {
	if l.bypasses() {
		return now
	}
	at, _ := l.projection.Next(now, l.asking())
	return at
}

// cause returns what has the first of a track wait until then.
func (l *track) cause(at throttle.Micros) throttle.Cause {
	if l.bypasses() {
		return throttle.Cause{Rule: throttle.NoRule}
	}
	return l.projection.Cause(at, l.asking())
}

// bypasses tells whether the first waits for nothing.
func (l *track) bypasses() bool { return l.queue[0].priority().AtLeast(l.settings.BypassFrom) }

// exempt tells whether closed intervals do not hold for the first.
func (l *track) exempt() bool { return l.queue[0].priority().AtLeast(l.settings.ExemptFrom) }

// asking is the first, as limits see it. What closed intervals end does not wait for them.
func (l *track) asking() throttle.Asking {
	who := throttle.Asking{
		Head: throttle.Head{Priority: int(l.queue[0].priority())}, Exempt: l.exempt() || l.settings.Drops,
	}
	if asked := l.queue[0].asked; asked != nil {
		who.Expires = asked.expires
	}
	return who
}

// dropsUntil returns the end of the closed interval in which a moment lies that ends what is due in it; 0 for none.
func (l *track) dropsUntil(at throttle.Micros) throttle.Micros {
	if !l.settings.Drops || l.bypasses() || l.exempt() {
		return 0
	}
	if until := l.projection.OpensAt(at, 0); until > at {
		return until
	}
	return 0
}

// closesAfter is when the next closed interval begins after a moment, or never.
func (l *track) closesAfter(at throttle.Micros) throttle.Micros {
	for _, interval := range l.settings.Plan.Closed {
		if interval.From > at {
			return interval.From
		}
	}
	return never
}

// arrive has the next that is due join its backlog.
func (t *timetable) arrive() {
	a := t.later[0]
	t.later, t.now = t.later[1:], max(t.now, a.due)
	a.track.insert(a.standing)
}

// insert puts something into its place.
func (l *track) insert(s standing) {
	i, _ := slices.BinarySearchFunc(l.queue, s.place, func(s standing, place int64) int {
		return cmp.Compare(s.place, place)
	})
	l.queue = slices.Insert(l.queue, i, s)
}

// goes has one go that is asked for, unless it would be refused at that moment, or ends.
func (t *timetable) goes(l *track, a *asked, at throttle.Micros) {
	a.at, a.by, a.until, a.ahead, t.now = at, l.cause(at), at, t.gone, max(t.now, at)
	until := l.dropsUntil(at)
	l.queue, t.asks = l.queue[1:], t.asks-1
	if until > 0 {
		a.until, a.dropped = until, true
		return
	}
	if a.refuses != nil {
		if a.refused = a.refuses(max(t.begin, a.due), at); a.refused != "" {
			return
		}
	}
	l.projection.Admit(at)
	t.gone++
}

// advance has what stands first in a track go, as much of it as goes before anything else does, and one at least.
func (t *timetable) advance(l *track, at, next throttle.Micros) {
	head := &l.queue[0]
	if len(t.later) > 0 {
		next = min(next, t.later[0].due)
	}
	n := 1
	switch {
	case l.dropsUntil(at) > 0: // all that are due then end
		t.now, l.queue = max(t.now, at), l.queue[1:]
		return
	case l.bypasses():
		n = head.count
		for range n {
			l.projection.Admit(at)
		}
	case next <= at:
		l.projection.Admit(at)
	default:
		if l.settings.Drops && !l.exempt() {
			next = min(next, l.closesAfter(at))
		}
		n = l.projection.Advance(head.count, l.asking(), next)
	}
	t.now, t.gone = max(t.now, at), t.gone+n
	if head.count -= n; head.count == 0 {
		l.queue = l.queue[1:]
	}
}

// cut is a place in a backlog, and how many stand before it.
type cut struct {
	standing

	before int
	waits  bool // what is asked for at that place is in the backlog
}

// queueOf makes a queue of what is known of a backlog: how many there are of each priority, its first places, and
// where those stand that are asked for.
func queueOf(counts [4]int, places []int64, cuts []cut) []standing {
	size := 0
	for i, count := range counts {
		cuts = append(cuts, cut{standing: standing{place: int64(i) * band}, before: size})
		size += count
	}
	for i, place := range places {
		if !slices.ContainsFunc(cuts, func(c cut) bool { return c.asked != nil && c.place == place }) {
			cuts = append(cuts, cut{standing: standing{place: place}, before: i})
		}
	}
	slices.SortStableFunc(cuts, func(a, b cut) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.before, b.before))
	})
	cuts = append(cuts, cut{before: size})
	var queue []standing
	for i, c := range cuts[:len(cuts)-1] {
		between := cuts[i+1].before - c.before
		if c.asked != nil {
			queue = append(queue, c.standing)
			if c.waits {
				between--
			}
		}
		if between > 0 {
			queue = append(queue, standing{place: c.place, count: between})
		}
	}
	return queue
}
