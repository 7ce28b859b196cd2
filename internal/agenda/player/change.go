package player

import (
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Changed is what a notification that waits is to have from now on.
type Changed struct {
	// Priority is its place, [notification.Released] before all others: then it stays so.
	Priority notification.Priority
	// NotBefore is when it may go, 0 at once; nil has it wait for what it waits for. Expires is when it ends, 0 never.
	NotBefore *throttle.Micros
	Expires   throttle.Micros
}

// Change changes a notification that waits, and reports whether it did.
func (a *Agenda) Change(now throttle.Micros, n *Note, to Changed) bool {
	a.now = now
	if n.frozen {
		return false
	}
	b := a.track(n.Category)
	if to.NotBefore == nil && (n.Status == notification.StatusScheduled || n.Status == notification.StatusRetrying) {
		b.set(n, to)
		return true
	}
	if !a.leave(n) {
		return false
	}
	b.set(n, to)
	if to.NotBefore != nil && n.NotBefore > now {
		n.Status = notification.StatusScheduled
		a.postpone(n, n.NotBefore)
		a.hold(n)
	} else {
		b.enter(n, n.bypasses)
	}
	b.tidy()
	return true
}

// set has a notification of the backlog's category be what it is changed to.
func (b *Backlog) set(n *Note, to Changed) {
	if n.Priority != notification.Released {
		n.Priority, n.bypasses = to.Priority, b.settings.bypasses(to.Priority)
	}
	if n.Expires = to.Expires; to.NotBefore != nil {
		n.NotBefore, n.retried = *to.NotBefore, 0
	}
}

// hold notes that a notification waits with its collapse key, unless another one does.
func (a *Agenda) hold(n *Note) {
	if n.CollapseKey != "" && a.keyed[n.collapseName()] == nil {
		a.keyed[n.collapseName()] = n
	}
}
