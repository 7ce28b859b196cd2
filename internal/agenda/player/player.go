// Package player is what an agenda does, as a pure function of what came and when: the specification that the Lua
// scripts of package agenda are held against, and the machine that plays what is to come.
//
// An [Agenda] is all that waits for one user. Each method is one script: it happens at a moment, and nothing happens in
// between. Who works on an agenda, and when, is the caller's: [Agenda.Take] says when to come again.
package player

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Note is a notification, as its agenda knows it.
type Note struct {
	ID, Category, Channel, CollapseKey string
	// Group is the same for what may go as one digest; empty for what goes alone.
	Group string

	// Priority is its place; [notification.Released] is before all others.
	Priority notification.Priority
	// Accepted is when it came, NotBefore when it may go at the earliest, 0 for at once; Expires when it ends, 0 for
	// never.
	Accepted, NotBefore, Expires throttle.Micros
	// Arrival orders: a later one has a higher number.
	Arrival int64

	// Status is what has become of it; empty once it is forgotten. While it stands in its backlog it is queued, also
	// while it is deferred. Reason says why it ended.
	Status notification.Status
	Reason string
	// Due is when it joins its backlog, while it is later. Held says that it waits for its provider.
	Due  throttle.Micros
	Held bool
	// Admitted is the moment of the latest grant, Leased the end of its lease.
	Admitted, Leased throttle.Micros
	// Generation counts the grants, Returned those that were given back untried.
	Generation, Returned, Failures, Crashes int
	// Deferred says that it ever waited for a limit.
	Deferred bool
	// Probe says that it is only asked when it would go: where others end, it stays as a ghost until its slot is known.
	// MaxWait is how long it may wait for that at most; nil for any time.
	Probe   bool
	MaxWait *time.Duration

	items       []*Note // those that go with it, or went when its delivery was tried
	frozen      bool    // that may have reached somebody
	bypasses    bool    // as the settings were when it came
	place       int64   // its arrival, unless it took over that of what it replaced, or went to the end
	passes      bool    // in its backlog, and not deferred with it
	ghost       bool
	slot        throttle.Micros // that comes too late for max_defer, or the earliest that it may be, unless decided
	decided     bool
	lapsed      int // the generation whose lease ended, while it may still be settled
	failedUntil throttle.Micros
	retried     throttle.Micros // when its latest retry was due
}

// Token names its latest grant in the logs.
func (n *Note) Token() string { return n.ID + "#" + strconv.Itoa(n.Generation) }

// WaitsSince is since when max_defer counts.
func (n *Note) WaitsSince() throttle.Micros { return max(n.Accepted, n.NotBefore, n.failedUntil) }

func (n *Note) expired(at throttle.Micros) bool { return n.Expires != 0 && n.Expires <= at }

func (n *Note) head() throttle.Head {
	return throttle.Head{Priority: int(n.Priority), Channel: n.Channel}
}

// inOrder compares the places of two in their backlogs.
func inOrder(a, b *Note) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.place, b.place), cmp.Compare(a.ID, b.ID))
}

// Config of an [Agenda].
type Config struct {
	User string
	// Settings gives those of a category at the present moment. It is asked at each step, and may give the same again.
	Settings func(category string) *Settings
	// Last is the highest arrival so far, which agendas may share. Defaults to one of its own.
	Last *int64
	// InOrder says that arrivals come in their order, and that each grant is settled before the next one comes: then
	// nobody has to remember which came last with a collapse key.
	InOrder bool
	// MaxCrashes is how many leases of a notification may end before it fails. Defaults to 3.
	MaxCrashes int
	// Lease is how long a delivery may take. Defaults to 15 s.
	Lease time.Duration
	// Deferred is told of each that is deferred for the first time, Ended of each that ends. Both default to nothing.
	Deferred, Ended func(*Note)
	// Going is told of each that is granted, before that counts, Refused of each that a ladder does not let in. Both
	// default to nothing.
	Going, Refused func(*Note)
}

// Agenda is all that waits for one user. Make one with [New].
type Agenda struct {
	cfg     Config
	now     throttle.Micros
	windows *throttle.Windows
	tracks  []*Backlog // of all categories that were ever used
	later   []*Note    // by the moment at which they are due
	flight  []*Note
	newest  map[string]int64 // arrival of the newest with a collapse key, by collapseName
	keyed   map[string]*Note // what waits with a collapse key
	excused throttle.Micros
	// overflowed counts what ladders have ended in the present step.
	overflowed int
	turn       []*Backlog // room for those whose turn is decided
	// laterUnread are later, too, and not in later: due at laterRead or after it.
	laterUnread int
	laterRead   throttle.Micros
}

// New makes the agenda of a user for whom nothing waits.
func New(cfg Config) *Agenda {
	cfg.MaxCrashes = cmp.Or(cfg.MaxCrashes, 3)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Second)
	cfg.Last = cmp.Or(cfg.Last, new(int64))
	if cfg.Deferred == nil {
		cfg.Deferred = func(*Note) {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(*Note) {}
	}
	if cfg.Going == nil {
		cfg.Going = func(*Note) {}
	}
	if cfg.Refused == nil {
		cfg.Refused = func(*Note) {}
	}
	return &Agenda{
		cfg: cfg, windows: throttle.NewWindows(cfg.User), newest: map[string]int64{}, keyed: map[string]*Note{},
	}
}

// Windows is what was admitted for the user.
func (a *Agenda) Windows() *throttle.Windows { return a.windows }

// Waits reports whether anything does.
func (a *Agenda) Waits() bool {
	return len(a.later) > 0 || slices.ContainsFunc(a.tracks, func(b *Backlog) bool { return len(b.notes) > 0 })
}

// Idle reports whether nothing waits, is in flight or counts any more.
func (a *Agenda) Idle(now throttle.Micros) bool {
	return !a.Waits() && len(a.flight) == 0 && a.windows.Idle(now)
}

// Backlogs are those in which something waits.
func (a *Agenda) Backlogs() []*Backlog {
	return slices.DeleteFunc(slices.Clone(a.tracks), func(b *Backlog) bool { return len(b.notes) == 0 })
}

// Later are those that are due later, in that order.
func (a *Agenda) Later() []*Note { return a.later }

// Excused is until when nothing is asked of the wake-up: what was given back said so.
func (a *Agenda) Excused() throttle.Micros { return a.excused }

// Categories are those whose settings a worker needs: of the backlogs, and of what is due first.
func (a *Agenda) Categories() []string {
	var names []string
	for _, b := range a.Backlogs() {
		names = append(names, b.category)
	}
	if len(a.later) > 0 && !slices.Contains(names, a.later[0].Category) {
		names = append(names, a.later[0].Category)
	}
	slices.Sort(names)
	return names
}

// Accept takes notifications in at a moment, in one step.
func (a *Agenda) Accept(now throttle.Micros, notes ...*Note) {
	a.now, a.overflowed = now, 0
	for _, n := range notes {
		a.accept(n)
	}
	for _, n := range notes {
		a.track(n.Category).tidy()
	}
}

func (a *Agenda) accept(n *Note) {
	*a.cfg.Last = max(*a.cfg.Last, n.Arrival)
	b := a.track(n.Category)
	n.place, n.bypasses = n.Arrival, b.settings.bypasses(n.Priority)
	if len(b.settings.Overflow) > 0 && (ladder{b}).overflows(n) {
		return
	}
	if n.CollapseKey != "" {
		if a.superseded(n) {
			a.end(n, notification.StatusReplaced, notification.ReasonReplaced)
			return
		}
		a.replaceEarlier(n)
	}
	if n.NotBefore > a.now {
		n.Status = notification.StatusScheduled
		a.postpone(n, n.NotBefore)
		return
	}
	b.enter(n, n.bypasses || b.blocked > 0 && (b.by.Closed && b.settings.exempts(n.Priority) &&
		len(b.settings.Plan.Closed) > 0 || b.overtakes(n)))
}

// superseded reports whether a newer one with the same collapse key has been accepted.
func (a *Agenda) superseded(n *Note) bool {
	if n.CollapseKey == "" {
		return false
	}
	if a.newest[n.collapseName()] > n.Arrival {
		return true
	}
	waiting := a.keyed[n.collapseName()]
	return waiting != nil && waiting != n && waiting.Arrival > n.Arrival
}

func (n *Note) collapseName() string { return n.Category + "\n" + n.CollapseKey }

// replaceEarlier ends what waits with the same collapse key, and takes its place, unless that was scheduled.
func (a *Agenda) replaceEarlier(n *Note) {
	earlier := a.keyed[n.collapseName()]
	if !a.cfg.InOrder {
		a.newest[n.collapseName()] = n.Arrival
	}
	if earlier != nil {
		scheduled := earlier.Status == notification.StatusScheduled
		a.leave(earlier)
		a.end(earlier, notification.StatusReplaced, notification.ReasonReplaced)
		if !scheduled {
			n.place = earlier.place
		}
	}
	a.keyed[n.collapseName()] = n
}

// postpone puts a notification among what is later.
func (a *Agenda) postpone(n *Note, due throttle.Micros) {
	n.Due = due
	a.later = slices.Insert(a.later, a.placeLater(n), n)
}

// placeLater is the place of a notification among what is later.
func (a *Agenda) placeLater(n *Note) int {
	i, _ := slices.BinarySearchFunc(a.later, n, func(x, y *Note) int {
		return cmp.Or(cmp.Compare(x.Due, y.Due), cmp.Compare(x.ID, y.ID))
	})
	return i
}

// Cancel ends a notification that waits, and reports whether it did. A digest that may have reached somebody does not
// count as waiting.
func (a *Agenda) Cancel(now throttle.Micros, n *Note) bool {
	return a.withdraw(now, n, notification.StatusCancelled, notification.ReasonCancelled)
}

// Expire ends a notification that has expired while it waits, and reports whether it did. What comes first now may go
// sooner.
func (a *Agenda) Expire(now throttle.Micros, n *Note) bool {
	return a.withdraw(now, n, notification.StatusExpired, notification.ReasonExpired)
}

func (a *Agenda) withdraw(now throttle.Micros, n *Note, status notification.Status, reason string) bool {
	a.now = now
	if n.frozen || !a.leave(n) {
		return false
	}
	a.end(n, status, reason)
	a.track(n.Category).tidy()
	return true
}

// leave takes a notification out of where it waits, and reports whether it did.
func (a *Agenda) leave(n *Note) bool {
	switch n.Status {
	case notification.StatusQueued:
		a.track(n.Category).remove(n)
	case notification.StatusScheduled, notification.StatusRetrying:
		a.later = without(a.later, a.placeLater(n))
		n.Held = false
	default:
		return false
	}
	if n.CollapseKey != "" && a.keyed[n.collapseName()] == n {
		delete(a.keyed, n.collapseName())
	}
	return true
}

// end ends a notification, and those that it carries.
func (a *Agenda) end(n *Note, status notification.Status, reason string) {
	n.Status, n.Reason = status, reason
	a.cfg.Ended(n)
	for _, item := range n.dissolve() {
		a.end(item, status, notification.ReasonDigest)
	}
}
