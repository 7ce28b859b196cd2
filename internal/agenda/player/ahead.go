package player

import (
	"cmp"
	"slices"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Fate is what becomes of a notification, if nothing else comes and whatever goes is delivered.
type Fate struct {
	// Goes says that it goes, at At. Else it ends for a reason: At is when it would have gone, or later. While there is
	// no reason either, nobody knows, but that it does not go before At.
	Goes   bool
	Reason string
	At     throttle.Micros
	// By is what it waits for, Until how long that lasts.
	By    throttle.Cause
	Until throttle.Micros
	// AtLeast says of what ends that it would have gone at At or later.
	AtLeast bool
	// Digest says that it goes with others.
	Digest bool
	// Ahead is how many go before it, in its category and in those that share caps with it.
	Ahead int
}

// Source tells an [Ahead] more of what waits.
type Source interface {
	// ReadBacklog reads on in the backlog of a category, ReadLater in what is later; see [Agenda.Unread]. They return
	// false when that is all that may be read.
	ReadBacklog(category string) (bool, error)
	ReadLater() (bool, error)
}

// aheadSteps is how many times workers come at most in one play. What is open then stays so.
const aheadSteps = 50_000

// takeAhead is how many are granted at once.
const takeAhead = 100

// Ahead plays an agenda ahead: a worker comes as soon as it may, and whatever goes is delivered at once.
type Ahead struct {
	agenda *Agenda
	source Source
	begin  throttle.Micros
	now    throttle.Micros
	steps  int
	fates  map[*Note]*Fate
	open   int // fates that are not known
	// gone counts what has gone, by component: the categories that share caps, directly or through others.
	component map[string]int
	gone      []int
	// nights are the closed intervals that blocked backlogs when the play began, by category.
	nights map[string]decision
	heard  func(*Note)
	// expiring are those that expire, by that.
	expiring []*Note
}

// NewAhead makes the agenda of a user, which the caller fills with what waits, and plays it from a moment on. Of cfg it
// sets what it listens to.
func NewAhead(begin throttle.Micros, cfg Config, source Source) *Ahead {
	h := &Ahead{
		source: source, begin: begin, now: begin, fates: map[*Note]*Fate{}, component: map[string]int{},
		heard: func(*Note) {},
	}
	cfg.Ended, cfg.Going = h.ended, h.going
	h.agenda = New(cfg)
	return h
}

// Agenda is what is played.
func (h *Ahead) Agenda() *Agenda { return h.agenda }

// Hear has a function called with all that goes, once its Admitted is known, and with all that ends.
func (h *Ahead) Hear(heard func(*Note)) { h.heard = heard }

// StartAt has the first worker come at a moment, if that is not over: the user's wake-up.
func (h *Ahead) StartAt(at throttle.Micros) { h.now = max(h.begin, at) }

// StartBy has the first worker come no later than that.
func (h *Ahead) StartBy(at throttle.Micros) { h.now = min(h.now, max(h.begin, at)) }

// Ask has the play find out what becomes of a notification.
func (h *Ahead) Ask(n *Note) *Fate {
	if h.fates[n] == nil {
		h.fates[n] = &Fate{}
		h.open++
	}
	return h.fates[n]
}

// Asked reports whether the fate of all that was asked for is known.
func (h *Ahead) Asked() bool { return h.open == 0 }

// Now is how far it was played.
func (h *Ahead) Now() throttle.Micros { return h.now }

// Gone is how many have gone of a category, and of those that share caps with it.
func (h *Ahead) Gone(category string) int {
	if i, shares := h.component[category]; shares {
		return h.gone[i]
	}
	return 0
}

// Share notes which categories share caps, those that are named together.
func (h *Ahead) Share(components [][]string) {
	h.gone = make([]int, len(components))
	for i, names := range components {
		for _, name := range names {
			h.component[name] = i
		}
	}
}

// Play goes on until it is enough, nothing is left, or no more may be read. Afterwards no fate that is still open comes
// before [Ahead.Now].
func (h *Ahead) Play(enough func() bool) error {
	for ; !enough() && h.steps < aheadSteps; h.steps++ {
		if more, err := h.readOn(); err != nil || !more {
			return err
		}
		if h.now > h.begin {
			h.noteNights()
		}
		h.expire()
		taken := h.agenda.Take(h.now, nil, takeAhead)
		h.noteNights()
		for _, g := range taken.Granted {
			h.noteDigest(g.Note)
			h.agenda.Settle(h.now, g.Note, g.Generation, dispatch.Outcome{Disposition: dispatch.Delivered})
		}
		next := taken.Next
		if h.agenda.laterUnread > 0 && (next == 0 || h.agenda.laterRead < next) {
			next = max(h.now, h.agenda.laterRead)
		}
		if len(h.expiring) > 0 && h.expiring[0].Expires < next {
			next = max(h.now, h.expiring[0].Expires)
		}
		switch {
		case taken.More:
		case next == 0:
			return nil
		default:
			h.now = next
		}
	}
	return nil
}

// noteDigest notes which go together.
func (h *Ahead) noteDigest(carrier *Note) {
	for _, n := range append(carrier.items, carrier) {
		if f := h.fates[n]; f != nil && len(carrier.items) > 0 {
			f.Digest = true
		}
	}
}

// Expires says that a notification that waits expires.
func (h *Ahead) Expires(n *Note) {
	i, _ := slices.BinarySearchFunc(h.expiring, n, func(x, y *Note) int { return cmp.Compare(x.Expires, y.Expires) })
	h.expiring = slices.Insert(h.expiring, i, n)
}

// expire ends what has expired, as a sweeper does.
func (h *Ahead) expire() {
	for len(h.expiring) > 0 && h.expiring[0].Expires <= h.now {
		if n := h.expiring[0]; !n.ghost {
			h.agenda.Expire(h.now, n)
		}
		h.expiring = h.expiring[1:]
	}
}

// readOn reads what has to be known before anything is granted now.
func (h *Ahead) readOn() (more bool, err error) {
	for h.agenda.laterUnread > 0 && h.agenda.laterRead <= h.now {
		if more, err := h.source.ReadLater(); err != nil || !more {
			return false, err
		}
	}
	for _, b := range h.agenda.tracks {
		for b.short() {
			if more, err := h.source.ReadBacklog(b.category); err != nil || !more {
				return false, err
			}
		}
	}
	return true, nil
}

// noteNights notes once which backlogs wait for the end of closed intervals as a whole.
func (h *Ahead) noteNights() {
	if h.nights != nil {
		return
	}
	h.nights = map[string]decision{}
	for _, b := range h.agenda.tracks {
		if b.blocked > 0 && b.by.Closed {
			h.nights[b.category] = decision{true, b.blocked, b.by}
		}
	}
}

// going notes that a notification goes, before its admission counts.
func (h *Ahead) going(n *Note) {
	if f := h.fates[n]; f != nil {
		h.tell(f, n, n.Admitted)
		f.Goes, f.Ahead = true, h.Gone(n.Category)
		if night := h.nights[n.Category]; night.known && n.Due <= night.at {
			f.By, f.Until = night.by, night.at
		}
	}
	if i, shares := h.component[n.Category]; shares {
		h.gone[i]++
	}
	h.heard(n)
}

// ended notes that a notification ends otherwise.
func (h *Ahead) ended(n *Note) {
	if n.Status == notification.StatusDelivered {
		return
	}
	if f := h.fates[n]; f != nil {
		b := h.agenda.track(n.Category)
		at := n.slot
		f.AtLeast = !n.decided
		if n.Reason == notification.ReasonExpired {
			f.AtLeast = false
			at = b.decide(n).at
		}
		h.tell(f, n, at)
		if f.Reason = n.Reason; f.Reason == notification.ReasonQuietHours {
			f.Until = b.settings.Plan.Open(h.agenda.cfg.User, at, 0)
		}
	}
	h.heard(n)
}

// tell notes a slot, and what has the notification wait until then, as seen from the beginning: what went before at the
// same moment waited for the same.
func (h *Ahead) tell(f *Fate, n *Note, at throttle.Micros) {
	h.open--
	f.At, f.Until, f.By = at, at, throttle.Cause{Rule: throttle.NoRule}
	b := h.agenda.track(n.Category)
	if b.settings.bypasses(n.Priority) {
		return
	}
	from, rule := b.window.Next(h.begin, n.head())
	by := throttle.Cause{Rule: rule}
	if b.waitsForHours(n) {
		if opens := b.settings.Plan.Open(h.agenda.cfg.User, from, n.Expires); opens > from {
			from, by.Closed = opens, true
		}
	}
	if company := b.companyUntil(n); company >= at && company > h.begin {
		from, by = company, throttle.Cause{Rule: throttle.DigestRule}
	}
	if from >= at {
		f.By = by
	}
}
