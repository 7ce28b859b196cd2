package player

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Digest is how what waits in a category goes as one. A digest is no object of its own: it is a way to take. Whatever
// stands first in its backlog takes the others of its group along, as one admission and one delivery; it is their
// carrier.
type Digest struct {
	// MaxItems is how many go as one at most, 2 to [MaxDigest].
	MaxItems int
	// Alone is the least urgent priority that goes alone; 0 for none.
	Alone notification.Priority
	// Wait is how long the first of a group waits for company. Extend is how long nothing of its group has to come, and
	// Max how long that may last. Moments are the fixed times at which digests go: the last that is over, then those to
	// come. Only one of the three is set, or none: then what stands there at the slot goes.
	Wait, Extend, Max time.Duration
	Moments           []throttle.Micros
	// Bundles says that only a backlog goes so that a closed interval has blocked or, where ByLadder is true, in which
	// a rung of the overflow ladder has held, until it is empty.
	Bundles, ByLadder bool
}

// MaxDigest is how many may go as one.
const MaxDigest = 100

// reach is how many that stand behind the first of a backlog are looked through for its group, and near how many at the
// end of a backlog for the newest of the group.
const reach, near = 400, 100

// waits reports whether digests go later than the limits let them.
func (d *Digest) waits() bool { return d != nil && (d.Wait > 0 || d.Extend > 0 || len(d.Moments) > 0) }

// same reports whether both are the same for a script.
func (d *Digest) same(o *Digest) bool {
	return d == o || d != nil && o != nil && d.MaxItems == o.MaxItems && d.Alone == o.Alone && d.Wait == o.Wait &&
		d.Extend == o.Extend && d.Max == o.Max && d.Bundles == o.Bundles && d.ByLadder == o.ByLadder &&
		slices.Equal(d.Moments, o.Moments)
}

// Text writes it for a script: the numbers of Bundles (2: ByLadder), MaxItems, Alone, Wait, Extend, Max (µs), how far
// to look, and Moments; empty for none.
func (d *Digest) Text() string {
	if d == nil {
		return ""
	}
	bundles := int64(0)
	switch {
	case d.Bundles && d.ByLadder:
		bundles = 2
	case d.Bundles:
		bundles = 1
	}
	var text strings.Builder
	numbers := []int64{
		bundles, int64(d.MaxItems), int64(d.Alone), d.Wait.Microseconds(), d.Extend.Microseconds(),
		d.Max.Microseconds(), reach, near,
	}
	for _, n := range numbers {
		text.WriteString(strconv.FormatInt(n, 10) + " ")
	}
	for _, m := range d.Moments {
		text.WriteString(strconv.FormatInt(int64(m), 10) + " ")
	}
	return text.String()
}

// atOnce is how many of a category go as one at most.
func (s *Settings) atOnce() int {
	if s.Digest == nil {
		return 1
	}
	return s.Digest.MaxItems
}

// Overtakes reports whether a priority may go sooner than what it comes before.
func (s *Settings) Overtakes(p notification.Priority) bool {
	return s.Plan.Overtakes(int(p)) || s.Digest.waits() && s.goesAlone(p)
}

// goesAlone reports whether a priority is in no digest.
func (s *Settings) goesAlone(p notification.Priority) bool {
	return s.Digest == nil || s.bypasses(p) || p.AtLeast(s.Digest.Alone)
}

// Items are those that go with a notification, in their order.
func (n *Note) Items() []*Note { return n.items }

// Frozen reports whether it carries a digest that may have reached somebody.
func (n *Note) Frozen() bool { return n.frozen }

// mayJoin reports whether another one goes with the first of its backlog, unless it has expired by then.
func (b *Backlog) mayJoin(first, n *Note) bool {
	return n.ID != first.ID && n.Group == first.Group && !b.settings.goesAlone(n.Priority) && !n.frozen && !n.ghost
}

// begins reports whether the first of a backlog may take others along.
func (b *Backlog) begins(first *Note) bool {
	return !b.settings.goesAlone(first.Priority) && first.Group != "" && !first.frozen &&
		(!b.settings.Digest.Bundles || b.bundled)
}

// company are those that go with the first of a backlog.
func (b *Backlog) company(first *Note) (items []*Note) {
	if !b.begins(first) {
		return nil
	}
	for _, n := range b.notes[:min(len(b.notes), reach+1)] {
		if len(items) == b.settings.Digest.MaxItems-1 {
			break
		}
		if b.mayJoin(first, n) && !n.expired(b.agenda.now) {
			items = append(items, n)
		}
	}
	return items
}

// companyUntil is until when the first of a backlog waits for company; 0 when it does not, or its digest is full.
func (b *Backlog) companyUntil(first *Note) (until throttle.Micros) {
	d := b.settings.Digest
	if !d.waits() || !b.begins(first) {
		return 0
	}
	switch since := first.WaitsSince(); {
	case d.Wait > 0:
		until = since.Add(d.Wait)
	case d.Extend > 0:
		until = min(b.newestWith(first).Add(d.Extend), since.Add(d.Max))
	default:
		i := slices.IndexFunc(d.Moments, func(m throttle.Micros) bool { return m > since })
		if i < 0 {
			return 0
		}
		until = d.Moments[i]
	}
	if until > b.agenda.now && len(b.company(first)) == d.MaxItems-1 {
		return 0
	}
	return until
}

// newestWith is since when the last of a backlog waits that goes with its first. What has expired counts until it is
// taken out: then its user is woken.
func (b *Backlog) newestWith(first *Note) throttle.Micros {
	for i := len(b.notes) - 1; i >= max(0, len(b.notes)-near); i-- {
		if b.mayJoin(first, b.notes[i]) {
			return max(b.notes[i].WaitsSince(), first.WaitsSince())
		}
	}
	return first.WaitsSince()
}

// join has the others of a digest go with its carrier.
func (b *Backlog) join(carrier *Note, items []*Note) {
	a := b.agenda
	for _, n := range items {
		a.leave(n)
		n.Status, n.Admitted = notification.StatusSending, carrier.Admitted
		if n.Generation > 0 { // a late result of its own attempt is void by now
			n.Generation++
			n.Returned++
		}
		a.cfg.Going(n)
	}
	carrier.items = append(carrier.items, items...)
}

// freeze keeps what may have reached somebody as it is: it comes again with the same content. Nothing that only
// concerns its carrier ends a digest; what went alone goes alone from now on.
func (n *Note) freeze() {
	if n.Group = ""; len(n.items) > 0 {
		n.frozen, n.Expires, n.CollapseKey = true, 0, ""
	}
}

// dissolve takes the items out of a digest.
func (n *Note) dissolve() (items []*Note) {
	items, n.items, n.frozen = n.items, nil, false
	return items
}
