package agenda

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

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

	// releases is told of all that goes, and the timetable goes on until nothing is left; nil when nothing but what is
	// asked for matters.
	releases *releases

	reader standingsReader
	read   int // how many it has read
	// laterRead is how many were read of those that are later, and laterFrom the moment from which others may be due,
	// unreadLater of them. unseen are those that wait in further backlogs.
	laterRead, unreadLater, unseen int
	laterFrom                      throttle.Micros
}

// standingsReader reads what waits, where a timetable has to know more of it. It returns how many it read.
type standingsReader interface {
	// readPlaces reads the places of the first of a track.
	readPlaces(ctx context.Context, l *track) (int, error)
	// readLater reads more of what is later.
	readLater(ctx context.Context, t *timetable) (int, error)
}

const (
	// maxSteps is how many steps a timetable takes at most where it goes step by step: with several backlogs, or on
	// several channels. What goes after that is only known not to go later than a bound; see timetable.bound.
	maxSteps = 50_000
	// maxRead is how many are read at most, beside those that the first script reads; after that it is the same.
	maxRead = 2500
)

// track is a backlog and what decides when its first goes.
type track struct {
	category   string
	settings   Settings
	projection *throttle.Projection
	queue      []standing // in order
}

// asked is a notification that is asked for, and the result.
type asked struct {
	// refuses names the limit for which a moment is too late, of one that may go since another. Then it is left out.
	// Defaults to none.
	refuses func(since, at throttle.Micros) string
	// stays says that something else keeps the place when it is refused: what it would replace.
	stays   bool
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
func (t *timetable) plan(ctx context.Context) error {
	t.sortLater()
	apart := len(t.tracks) > 1 || t.unseen > 0 || t.tracks[0].settings.Plan.ByChannel()
	for t.asks = t.asked(); t.asks > 0 || t.releases != nil; {
		if t.releases != nil && (t.steps > releasesSteps || t.read >= maxRead) {
			t.plansApart()
			return nil
		}
		if t.steps += len(t.tracks); apart && (t.steps > maxSteps || t.unseen > 0) || t.read >= maxRead {
			t.bound()
			return nil
		}
		first, at, next := t.first()
		switch unread := t.unread(); {
		case apart && unread != nil && t.reader != nil:
			if err := t.reads(t.reader.readPlaces(ctx, unread)); err != nil {
				return err
			}
		case t.laterFrom <= at && t.unreadLater > 0 && (len(t.later) == 0 || t.laterFrom <= t.later[0].due):
			if err := t.reads(t.reader.readLater(ctx, t)); err != nil {
				return err
			}
			t.sortLater()
		case len(t.later) > 0 && t.later[0].due <= at:
			t.arrive()
		case first == nil:
			return nil
		case first.dropsUntil(at) > 0:
			t.drop(first, at)
		case first.queue[0].asked != nil:
			t.goes(first, first.queue[0].asked, at)
		default:
			t.advance(first, at, next)
		}
	}
	return nil
}

// reads counts what was read.
func (t *timetable) reads(n int, err error) error {
	t.read += n
	return err
}

func (t *timetable) sortLater() {
	slices.SortStableFunc(t.later, func(a, b arrival) int { return cmp.Compare(a.due, b.due) })
}

// sharesCap reports whether some cap counts what goes by settings and what is in the timetable.
func (t *timetable) sharesCap(settings Settings) bool {
	return slices.ContainsFunc(t.tracks, func(l *track) bool { return l.settings.Plan.SharesCap(settings.Plan) })
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

// bound plans those that are asked for so that none is told too early: everything else goes before a backlog does,
// under the caps alone, and once more before each in it that is asked for.
func (t *timetable) bound() {
	others := t.unseen + t.unreadLater
	for _, a := range t.later {
		if a.asked != nil {
			a.track.insert(a.standing)
		} else {
			others++
		}
	}
	waiting := 0
	for _, l := range t.tracks {
		waiting += l.waiting()
	}
	for _, l := range t.tracks {
		others := others + waiting - l.waiting()
		if len(l.queue) > 0 {
			l.projection = l.projection.Behind(others, l.asking())
		}
		for len(l.queue) > 0 {
			head := l.queue[0]
			if head.asked == nil {
				l.projection.Advance(head.count, l.asking(), never)
				l.queue = l.queue[1:]
				continue
			}
			at := max(t.now, head.asked.due)
			if !l.bypasses() {
				at, _ = l.projection.Behind(others, l.asking()).Next(at, l.asking())
			}
			at = max(at, l.dropsUntil(at))
			t.goes(l, head.asked, at)
		}
	}
}

// waiting is how many wait in a track.
func (l *track) waiting() (n int) {
	for _, s := range l.queue {
		n += s.count
		if s.asked != nil {
			n++
		}
	}
	return n
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

// unread returns a track of whose first neither place nor channel is known. Until they are, nobody can tell which track
// is next: a cap takes a channel that is not known for one that it counts.
func (t *timetable) unread() *track {
	for _, l := range t.tracks {
		if len(l.queue) > 0 && l.queue[0].unread {
			return l
		}
	}
	return nil
}

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

// bypasses reports whether the first waits for nothing.
func (l *track) bypasses() bool { return l.queue[0].priority().AtLeast(l.settings.BypassFrom) }

// exempt reports whether closed intervals do not hold for the first.
func (l *track) exempt() bool { return l.queue[0].priority().AtLeast(l.settings.ExemptFrom) }

// asking is the first, as limits see it. What closed intervals end does not wait for them.
func (l *track) asking() throttle.Asking {
	who := throttle.Asking{
		Head:   throttle.Head{Priority: int(l.queue[0].priority()), Channel: l.queue[0].channel},
		Exempt: l.exempt() || l.settings.Drops,
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
	i := sort.Search(len(l.queue), func(i int) bool { return l.queue[i].place >= s.place })
	l.queue = slices.Insert(l.queue, i, s)
}

// drop ends those at the head of a track that are due at a moment in a closed interval that ends them. Like the take
// script it ends all of them before anything else goes: none takes a slot.
func (t *timetable) drop(l *track, at throttle.Micros) {
	t.now = max(t.now, at)
	for len(l.queue) > 0 {
		until := l.dropsUntil(at)
		if until == 0 || l.next(t.now) > at {
			return
		}
		if a := l.queue[0].asked; a != nil {
			a.at, a.by, a.until, a.ahead, a.dropped = at, l.cause(at), until, t.gone, true
			t.asks--
		} else if t.releases != nil {
			t.releases.ends(l.category, l.queue[0].count)
		}
		l.queue = l.queue[1:]
	}
}

// goes has one go that is asked for, unless it would be refused at that moment.
func (t *timetable) goes(l *track, a *asked, at throttle.Micros) {
	a.at, a.by, a.until, a.ahead, t.now = at, l.cause(at), at, t.gone, max(t.now, at)
	who := l.asking()
	l.queue, t.asks = l.queue[1:], t.asks-1
	if a.refuses != nil {
		if a.refused = a.refuses(max(t.begin, a.due), at); a.refused != "" && !a.stays {
			return
		}
	}
	l.projection.Admit(at, who)
	t.gone++
}

// advance has what stands first in a track go, as much of it as goes before anything else does, and one at least.
func (t *timetable) advance(l *track, at, next throttle.Micros) {
	head := &l.queue[0]
	next = min(next, t.laterFrom)
	if len(t.later) > 0 {
		next = min(next, t.later[0].due)
	}
	if t.releases != nil {
		next = min(next, t.releases.forecast.sliceEnd(at))
	}
	n := 1
	switch {
	case l.bypasses():
		n = head.count
		for range n {
			l.projection.Admit(at, l.asking())
		}
	case next <= at:
		l.projection.Admit(at, l.asking())
	default:
		if l.settings.Drops && !l.exempt() {
			next = min(next, l.closesAfter(at))
		}
		n = l.projection.Advance(head.count, l.asking(), next)
	}
	if t.releases != nil {
		t.releases.goes(l.category, n, at, max(at, l.projection.Last()))
	}
	t.now, t.gone = max(t.now, at), t.gone+n
	if head.count -= n; head.count == 0 {
		l.queue = l.queue[1:]
	}
}

// plansApart plans what is left of each backlog by itself.
func (t *timetable) plansApart() {
	t.releases.cut = true
	for _, l := range t.tracks {
		for len(l.queue) > 0 {
			if at := l.next(t.begin); l.queue[0].asked != nil {
				t.goes(l, l.queue[0].asked, at)
			} else {
				t.advance(l, at, never)
			}
		}
	}
}
