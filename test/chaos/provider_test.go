package chaos_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// item is a notification as a schedule has it accepted.
type item struct {
	ID       string `json:"id"`
	User     string `json:"user"`
	Category string `json:"category"`
	Priority int    `json:"priority"`
	Collapse string `json:"collapse,omitempty"`
	// SendIn and ExpiresIn are ms; 0: at once, never.
	SendIn    int `json:"send_in,omitempty"`
	ExpiresIn int `json:"expires_in,omitempty"`
	// ByPush notifications go by another channel than others.
	ByPush bool `json:"by_push,omitempty"`
}

// entry is what the world knows of a notification that somebody asked to be accepted.
type entry struct {
	item
	order               int // of the first asking
	askedAt, acceptedAt time.Time
	sendAt, expiresAt   time.Time
	accepted            bool // somebody was told so
	cancelled           bool // somebody asked for that
	deliveries          []*delivery
}

// delivery is one that reached the provider.
type delivery struct {
	id       string
	items    []string // what went with it as a digest
	proc     *process
	op       *operation
	at       time.Time // it reached the provider
	granted  time.Time // asked for then; the store decided between that and replied, see place
	replied  time.Time
	place    place
	admitted throttle.Micros
	told     bool // the provider's response arrived
	settled  time.Time
	// storeFailed tells that the store to which the result was written failed then.
	storeFailed, died bool
}

// ledger is what the world, who sees all, wrote down.
type ledger struct {
	mu      sync.Mutex
	entries map[string]*entry
	ids     []string
	grants  map[granted]*grant
	// rounds reports when each round was asked for first.
	rounds map[string]time.Time
	// pending are the rounds, with their partition, whose result has not arrived; told what somebody knows to be
	// granted: id#generation.
	pending map[string]int
	told    map[string]bool
	// newest is, by user, the latest wake-up that somebody was told to have at work.
	newest map[string]atWork
	// refused are those that the provider refused for ever.
	refused map[string]bool
	optOuts map[string]bool // users who opted out of chat, at any time
	broken  []string        // promises that were seen broken on the way
	all     []*delivery
}

// granted names what an operation was granted.
type granted struct {
	op *operation
	id string
}

// grant is one that an operation holds, asked for at a moment and told of at another, and the delivery that it led to.
type grant struct {
	at, replied time.Time
	ahead       bool // of its moment
	place       place
	d           *delivery
}

// place tells in which order one round granted.
type place struct {
	round  string
	number int
}

// after reports whether the same round granted this one after another.
func (p place) after(o place) bool { return p.round != "" && p.round == o.round && p.number > o.number }

func newLedger() *ledger {
	return &ledger{
		entries: map[string]*entry{}, grants: map[granted]*grant{}, rounds: map[string]time.Time{},
		pending: map[string]int{}, told: map[string]bool{}, newest: map[string]atWork{}, refused: map[string]bool{},
		optOuts: map[string]bool{},
	}
}

// asked notes that items are about to be accepted, and makes notifications of them.
func (l *ledger) asked(items []item) []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var entries []*entry
	now := time.Now()
	for _, it := range items {
		e := l.entries[it.ID]
		if e == nil {
			e = &entry{item: it, order: len(l.ids), askedAt: now}
			if it.SendIn > 0 {
				e.sendAt = now.Add(time.Duration(it.SendIn) * time.Millisecond)
			}
			if it.ExpiresIn > 0 {
				e.expiresAt = now.Add(time.Duration(it.SendIn+it.ExpiresIn) * time.Millisecond)
			}
			l.entries[it.ID] = e
			l.ids = append(l.ids, it.ID)
		}
		entries = append(entries, e)
	}
	return entries
}

func (l *ledger) accepted(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.accepted {
		e.accepted, e.acceptedAt = true, time.Now()
	}
}

func (l *ledger) breaks(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, fmt.Sprintf(format, args...))
}

// died marks the deliveries of a process whose outcome is unknown now.
func (l *ledger) died(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.all {
		if d.proc == p && d.settled.IsZero() {
			d.died = true
		}
	}
}

// reached notes a delivery, and checks whether it may be a second one.
func (l *ledger) reached(p *process, op *operation, m push.Message, told bool) *delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	d := &delivery{
		id: m.ID, items: itemsOf(m), proc: p, op: op, at: now, admitted: throttle.MicrosOf(m.AdmittedAt), told: told,
		granted: now, replied: now,
	}
	if g := l.grants[granted{op, m.ID}]; g != nil {
		d.granted, d.replied, d.place, g.d = g.at, g.replied, g.place, d
	}
	for _, id := range append([]string{m.ID}, d.items...) {
		l.delivers(id, d, now)
	}
	l.all = append(l.all, d)
	return d
}

// itemsOf are those that go with a message as a digest.
func itemsOf(m push.Message) (ids []string) {
	for _, item := range cmp.Or(m.Digest, &notification.Digest{}).Items {
		if item.ID != m.ID {
			ids = append(ids, item.ID)
		}
	}
	return ids
}

// delivers notes that something was in a delivery. After one that may have arrived, it comes in the same digest.
func (l *ledger) delivers(id string, d *delivery, now time.Time) {
	e := l.entries[id]
	if e == nil {
		l.broken = append(l.broken, fmt.Sprintf("P1: %s was sent and nobody had it accepted", id))
		return
	}
	for _, before := range e.deliveries {
		if !before.unknown(now) {
			l.broken = append(l.broken, fmt.Sprintf("P2: %s was delivered again although the outcome of its delivery at %.3f s was known (told %t, settled %t)",
				id, before.at.Sub(epoch).Seconds(), before.told, !before.settled.IsZero()))
		}
		if before.id != d.id || !slices.Equal(before.items, d.items) {
			l.broken = append(l.broken, fmt.Sprintf("P2: %s went with %s and %v, and then with %s and %v", id, before.id,
				before.items, d.id, d.items))
		}
	}
	e.deliveries = append(e.deliveries, d)
}

// mayFollow reports whether the store may have granted a delivery after another one: of two rounds that overlap, either
// may have been first.
func (d *delivery) mayFollow(o *delivery) bool {
	if d.place.round != "" && d.place.round == o.place.round {
		return d.place.after(o.place)
	}
	return d.replied.After(o.granted)
}

// unknown reports whether nobody could know what became of a delivery.
func (d *delivery) unknown(now time.Time) bool {
	if !d.told {
		return true
	}
	if !d.settled.IsZero() {
		return false
	}
	return d.died || d.storeFailed || now.Sub(d.granted) >= claimed-100*time.Millisecond
}

// provider is the other side of every channel. Each call is a step.
type provider struct {
	w    *world
	proc *process
}

// staleAfter is how late after its admission a delivery may begin, and horizon how much ahead of it.
const (
	staleAfter = 250 * time.Millisecond
	tolerance  = 15 * time.Millisecond
)

// Send implements push.Sender.
func (p provider) Send(ctx context.Context, m push.Message) error {
	op, _ := ctx.Value(opKey{}).(*operation)
	if late := time.Since(m.AdmittedAt); late > staleAfter+tolerance && !p.proc.isDead() && !p.proc.late.Load() {
		p.w.ledger.breaks("P7: %s is sent %s after its admission", m.ID, late.Round(time.Millisecond))
	}
	p.w.ledger.begins(op, m)
	switch v := p.w.await(ctx, "provider send "+m.ID); v {
	case made, twice:
		p.w.ledger.reached(p.proc, op, m, true)
		return nil
	case lost:
		p.w.ledger.reached(p.proc, op, m, false)
		return &push.Error{Class: push.Ambiguous, Code: "timeout", Err: errLate}
	case late:
		p.w.ledger.reached(p.proc, op, m, false)
		p.w.sleep(ctx, p.proc, time.Hour)
		return &push.Error{Class: push.Ambiguous, Code: "timeout", Err: errLate}
	case refused:
		p.w.ledger.refuses(m)
		return &push.Error{Class: push.Permanent, Code: "400"}
	case throttled:
		return &push.Error{Class: push.Throttled, Code: "429", RetryAfter: 2 * time.Second}
	case lastBefore:
		p.proc.die()
	case lastAfter:
		p.w.ledger.reached(p.proc, op, m, false)
		p.proc.die()
	case notMade, dead:
	}
	return &push.Error{Class: push.Transient, Code: "connection_refused", Unsent: true, Err: errCut}
}

func (l *ledger) refuses(m push.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range append(itemsOf(m), m.ID) {
		l.refused[id] = true
	}
}

// begins checks whether a delivery may begin: nothing newer with its collapse key may have been delivered before it was
// admitted, or before it was granted, if that was ahead of its moment.
func (l *ledger) begins(op *operation, m push.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	decided := throttle.MicrosOf(m.AdmittedAt)
	if g := l.grants[granted{op, m.ID}]; g != nil && g.ahead {
		decided = throttle.MicrosOf(g.at)
	}
	e := l.entries[m.ID]
	if e == nil || e.Collapse == "" || !e.accepted {
		return
	}
	for _, id := range l.ids {
		newer := l.entries[id]
		if newer.User != e.User || newer.Category != e.Category || newer.Collapse != e.Collapse ||
			!newer.askedAt.After(e.acceptedAt) {
			continue
		}
		for _, d := range newer.deliveries {
			if d.admitted < decided {
				l.broken = append(l.broken, fmt.Sprintf("P12: %s is sent after %s, which is newer and has the same collapse key", e.ID, id))
				return
			}
		}
	}
}

// CheckTarget implements push.Checker.
func (p provider) CheckTarget(string) error { return nil }

// CheckContent implements push.Checker.
func (p provider) CheckContent(*notification.Notification) error { return nil }
