package dispatch

import (
	"errors"
	"runtime/debug"
	"time"
)

const (
	// lostPause is how long a partition that has lost its state is left alone.
	lostPause = 500 * time.Millisecond
	// gather is how long who had to wait for room waits for more of it, where there is more than gatherAbove: a round costs
	// the same whether it may begin one delivery or many.
	gather      = 2 * time.Millisecond
	gatherAbove = 32
)

// loop serves one partition: it is the one that asks for its wake-ups, one round after the other.
type loop struct {
	partition
	pending <-chan struct{}
	most    int  // wake-ups in hand
	inTurn  bool // it holds a turn, for the next round
}

func newLoop(d *Dispatcher, number int) *loop {
	return &loop{
		partition: partition{Dispatcher: d, number: number},
		pending:   d.queue.Pending(number),
		most:      max(1, d.cfg.Held/d.cfg.Partitions),
	}
}

// run serves until Stop, and gives back what is in hand then.
func (l *loop) run() {
	for l.await() {
		l.turn()
		l.endTurn()
	}
	l.endTurn()
	l.freeTokens()
	l.release(l.ending, l.hand.takeAll())
}

// endTurn lets the next round have the turn.
func (l *loop) endTurn() {
	if l.inTurn {
		l.inTurn = false
		l.turns.giveBack()
	}
}

// await waits until there is something to ask for, a turn and room for it; false when the dispatcher stops.
func (l *loop) await() bool {
	for {
		select {
		case <-l.stopping:
			return false
		default:
		}
		switch now := time.Now(); {
		case l.hand.due(now, 1) == 0 && !l.mayPull():
			l.idle(now)
		case l.hasRoom():
			return true
		default:
			l.awaitRoom()
		}
	}
}

// mayPull tells whether something may stand in the queue, and there is a hand free to take it.
func (l *loop) mayPull() bool { return l.more && l.hand.size() < l.most }

// hasRoom takes tokens for a round, whose turn it waits for.
func (l *loop) hasRoom() bool {
	if !l.inTurn {
		l.inTurn = l.turns.take(l.stopping)
	}
	l.tokens += l.room.topUp(l.tokens)
	return l.tokens > 0
}

// idle waits until a wake-up is due or something stands in the queue.
func (l *loop) idle(now time.Time) {
	l.freeTokens()
	var due <-chan time.Time
	if at, ok := l.hand.next(); ok {
		timer := time.NewTimer(at.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	pending := l.pending
	if l.more { // no hand is free
		pending = nil
	}
	select {
	case <-due:
	case <-pending:
		l.more = true
	case <-l.stopping:
	}
}

// awaitRoom waits for a token. What is due and had to wait for too long goes back to the queue.
func (l *loop) awaitRoom() {
	var late <-chan time.Time
	if at, ok := l.hand.next(); ok {
		timer := time.NewTimer(time.Until(at.Add(l.cfg.Hold)))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case l.room <- struct{}{}:
		l.tokens++
		if cap(l.room) > gatherAbove {
			l.pause(gather)
		}
	case <-late:
		var given []Wakeup
		for _, h := range l.hand.take(time.Now(), releaseAtOnce) {
			given = append(given, h.Wakeup)
		}
		l.release(l.ending, given)
	case <-l.stopping:
	}
}

// turn makes one round. It survives its own panic, at the cost of what it had taken out of its hand.
func (l *loop) turn() {
	defer func() {
		if p := recover(); p != nil {
			l.cfg.Log.Error("a partition's loop panicked; it goes on", "partition", l.number, "panic", p, "stack", string(debug.Stack()))
			l.pause(lostPause)
		}
	}()
	err := l.round(l.ending, l.pull(time.Now()), l.begin)
	// What is due now is asked for at once, with the tokens that it needs.
	unused := l.tokens - l.hand.due(time.Now(), l.tokens)
	l.room.giveBack(unused)
	l.tokens -= unused
	if errors.Is(err, ErrLost) {
		l.cfg.Log.Debug("a partition waits to be built again", "partition", l.number)
		l.pause(lostPause)
	}
}

// pull is how many wake-ups to pull: as many as the next round can ask for, beside those that this one leaves in hand.
func (l *loop) pull(now time.Time) int {
	if !l.mayPull() {
		return 0
	}
	select {
	case <-l.pending: // this is the pull that it asks for
	default:
	}
	n := min(wakeupsAtOnce, l.tokens)
	left := l.hand.due(now, 2*wakeupsAtOnce) - n
	return max(0, min(n-max(0, left), l.most-l.hand.size()))
}

// pause waits; shorter when the dispatcher stops.
func (l *loop) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.stopping:
	}
}
