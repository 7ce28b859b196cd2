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
	readPlaces(ctx context.Context, tr *track) (int, error)
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
	return slices.ContainsFunc(t.tracks, func(tr *track) bool { return tr.settings.Plan.SharesCap(settings.Plan) })
}

// asked counts what is asked for and has yet to go.
func (t *timetable) asked() (n int) {
	for _, tr := range t.tracks {
		for _, s := range tr.queue {
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
	for _, tr := range t.tracks {
		waiting += tr.waiting()
	}
	for _, tr := range t.tracks {
		others := others + waiting - tr.waiting()
		if len(tr.queue) > 0 {
			tr.projection = tr.projection.Behind(others, tr.asking())
		}
		for len(tr.queue) > 0 {
			head := tr.queue[0]
			if head.asked == nil {
				tr.projection.Advance(head.count, tr.asking(), never)
				tr.queue = tr.queue[1:]
				continue
			}
			at := max(t.now, head.asked.due)
			if !tr.bypasses() {
				at, _ = tr.projection.Behind(others, tr.asking()).Next(at, tr.asking())
			}
			at = max(at, tr.dropsUntil(at))
			t.goes(tr, head.asked, at)
		}
	}
}

// waiting is how many wait in a track.
func (tr *track) waiting() (n int) {
	for _, s := range tr.queue {
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
	for _, tr := range t.tracks {
		if len(tr.queue) == 0 {
			continue
		}
		when := tr.next(t.now)
		if first == nil || when < at || when == at && tr.queue[0].place < first.queue[0].place {
			first, at, next = tr, when, at
		} else {
			next = min(next, when)
		}
	}
	return first, at, next
}

// unread returns a track of whose first neither place nor channel is known. Until they are, nobody can tell which track
// is next: a cap takes a channel that is not known for one that it counts.
func (t *timetable) unread() *track {
	for _, tr := range t.tracks {
		if len(tr.queue) > 0 && tr.queue[0].unread {
			return tr
		}
	}
	return nil
}

// next returns when the first of a track goes.
func (tr *track) next(now throttle.Micros) throttle.Micros {
	if tr.bypasses() {
		return now
	}
	at, _ := tr.projection.Next(now, tr.asking())
	return at
}

// cause returns what has the first of a track wait until then.
func (tr *track) cause(at throttle.Micros) throttle.Cause {
	if tr.bypasses() {
		return throttle.Cause{Rule: throttle.NoRule}
	}
	return tr.projection.Cause(at, tr.asking())
}

// bypasses reports whether the first waits for nothing.
func (tr *track) bypasses() bool { return tr.queue[0].priority().AtLeast(tr.settings.BypassFrom) }

// exempt reports whether closed intervals do not hold for the first.
func (tr *track) exempt() bool { return tr.queue[0].priority().AtLeast(tr.settings.ExemptFrom) }

// asking is the first, as limits see it. What closed intervals end does not wait for them.
func (tr *track) asking() throttle.Asking {
	who := throttle.Asking{
		Head:   throttle.Head{Priority: int(tr.queue[0].priority()), Channel: tr.queue[0].channel},
		Exempt: tr.exempt() || tr.settings.Drops,
	}
	if asked := tr.queue[0].asked; asked != nil {
		who.Expires = asked.expires
	}
	return who
}

// dropsUntil returns the end of the closed interval in which a moment lies that ends what is due in it; 0 for none.
func (tr *track) dropsUntil(at throttle.Micros) throttle.Micros {
	if !tr.settings.Drops || tr.bypasses() || tr.exempt() {
		return 0
	}
	if until := tr.projection.OpensAt(at, 0); until > at {
		return until
	}
	return 0
}

// closesAfter is when the next closed interval begins after a moment, or never.
func (tr *track) closesAfter(at throttle.Micros) throttle.Micros {
	for _, interval := range tr.settings.Plan.Closed {
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
func (tr *track) insert(s standing) {
	i := sort.Search(len(tr.queue), func(i int) bool { return tr.queue[i].place >= s.place })
	tr.queue = slices.Insert(tr.queue, i, s)
}

// drop ends those at the head of a track that are due at a moment in a closed interval that ends them. Like the take
// script it ends all of them before anything else goes: none takes a slot.
func (t *timetable) drop(tr *track, at throttle.Micros) {
	t.now = max(t.now, at)
	for len(tr.queue) > 0 {
		until := tr.dropsUntil(at)
		if until == 0 || tr.next(t.now) > at {
			return
		}
		if a := tr.queue[0].asked; a != nil {
			a.at, a.by, a.until, a.ahead, a.dropped = at, tr.cause(at), until, t.gone, true
			t.asks--
		} else if t.releases != nil {
			t.releases.ends(tr.category, tr.queue[0].count)
		}
		tr.queue = tr.queue[1:]
	}
}

// goes has one go that is asked for, unless it would be refused at that moment.
func (t *timetable) goes(tr *track, a *asked, at throttle.Micros) {
	a.at, a.by, a.until, a.ahead, t.now = at, tr.cause(at), at, t.gone, max(t.now, at)
	who := tr.asking()
	tr.queue, t.asks = tr.queue[1:], t.asks-1
	if a.refuses != nil {
		if a.refused = a.refuses(max(t.begin, a.due), at); a.refused != "" && !a.stays {
			return
		}
	}
	tr.projection.Admit(at, who)
	t.gone++
}

// advance has what stands first in a track go, as much of it as goes before anything else does, and one at least.
func (t *timetable) advance(tr *track, at, next throttle.Micros) {
	head := &tr.queue[0]
	next = min(next, t.laterFrom)
	if len(t.later) > 0 {
		next = min(next, t.later[0].due)
	}
	if t.releases != nil {
		next = min(next, t.releases.forecast.sliceEnd(at))
	}
	n := 1
	switch {
	case tr.bypasses():
		n = head.count
		for range n {
			tr.projection.Admit(at, tr.asking())
		}
	case next <= at:
		tr.projection.Admit(at, tr.asking())
	default:
		if tr.settings.Drops && !tr.exempt() {
			next = min(next, tr.closesAfter(at))
		}
		n = tr.projection.Advance(head.count, tr.asking(), next)
	}
	if t.releases != nil {
		t.releases.goes(tr.category, n, at, max(at, tr.projection.Last()))
	}
	t.now, t.gone = max(t.now, at), t.gone+n
	if head.count -= n; head.count == 0 {
		tr.queue = tr.queue[1:]
	}
}

// plansApart plans what is left of each backlog by itself.
func (t *timetable) plansApart() {
	t.releases.cut = true
	for _, tr := range t.tracks {
		for len(tr.queue) > 0 {
			if at := tr.next(t.begin); tr.queue[0].asked != nil {
				t.goes(tr, tr.queue[0].asked, at)
			} else {
				t.advance(tr, at, never)
			}
		}
	}
}
