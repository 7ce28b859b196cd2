package player

import (
	"math"
	"slices"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Restore puts in a notification that a store says waits: at the place in its backlog that its arrival gives it or,
// while it is due later, among what is later.
func (a *Agenda) Restore(n *Note) {
	b := a.track(n.Category)
	n.place, n.bypasses = n.Arrival, b.settings.bypasses(n.Priority)
	if n.Due > 0 {
		a.postpone(n, n.Due)
		return
	}
	n.Status, n.Deferred = notification.StatusQueued, true
	i, _ := slices.BinarySearchFunc(b.notes, n, inOrder)
	b.notes = slices.Insert(b.notes, i, n)
	b.oldest = min(b.oldest, n.WaitsSince())
}

// Block says that a store has a backlog blocked until a moment, and that so many of it can go within max_defer; 0 for
// any number. It is not blocked at 0.
func (a *Agenda) Block(category string, until throttle.Micros, by throttle.Cause, inTime int) {
	b := a.track(category)
	if b.blocked, b.by, b.inTime = until, by, inTime; inTime == 0 {
		b.inTime = math.MaxInt
	}
}

// Bundle says that a backlog goes as digests until it is empty.
func (a *Agenda) Bundle(category string) { a.track(category).bundled = true }

// BlockedBy is what blocked a backlog last.
func (a *Agenda) BlockedBy(category string) throttle.Cause { return a.track(category).by }

// Remember notes the arrival of the newest notification with a collapse key.
func (a *Agenda) Remember(category, collapseKey string, arrival int64) {
	a.newest[(&Note{Category: category, CollapseKey: collapseKey}).collapseName()] = arrival
}

// Unread says that so many more wait in a backlog, behind one that was put in; nil for behind nothing. Nothing of them
// goes until they are put in.
func (a *Agenda) Unread(category string, n int, last *Note) {
	b := a.track(category)
	b.unread, b.last = n, last
}

// LaterUnread says that so many more are later, due at a moment or after it.
func (a *Agenda) LaterUnread(n int, from throttle.Micros) { a.laterUnread, a.laterRead = n, from }

// Beyond reports whether a notification waits behind all that were put in of its backlog.
func (a *Agenda) Beyond(n *Note) bool {
	b := a.track(n.Category)
	return n.Status == notification.StatusQueued && b.unread > 0 && (b.last == nil || inOrder(n, b.last) > 0)
}

// short reports whether what goes first in the backlog was not put in yet, or what may go with it.
func (b *Backlog) short() bool {
	return b.unread > 0 && b.pausedUntil() <= b.agenda.now &&
		(len(b.notes) == 0 || b.last == nil || inOrder(b.notes[0], b.last) > 0 ||
			b.settings.Digest != nil && len(b.notes) <= reach)
}

// Hold says that one that waits has a collapse key.
func (a *Agenda) Hold(n *Note, collapseKey string) {
	n.CollapseKey = collapseKey
	a.keyed[n.collapseName()] = n
}
