package dispatch

import (
	"errors"
	"runtime/debug"
	"time"
)

const (
	// lostPause is how long a loop leaves a partition alone that has lost its state.
	lostPause = 500 * time.Millisecond
	// gatherTime is how long a loop that had to wait for a single token waits for more of them, where there are more
	// than gatherAbove in all: a round costs the same whether it may start one delivery or many.
	gatherTime  = 2 * time.Millisecond
	gatherAbove = 32
)

// state is what a loop does at the moment.
type state uint8

// The states of a loop. Each has a method, which does the work of the state and returns the next one.
//
//	idle ──▶ awaitingTurn ──▶ inRound
//	 ▲            │              │
//	 └────────────┴──────────────┘
//
// Stop ends the first two at once, and a round at its end.
const (
	// idle lasts until a held wake-up is due, or one stands in the queue.
	idle state = iota
	// awaitingTurn lasts until few enough rounds of all partitions are under way, a delivery may start, and no
	// partition has waited longer; wake-ups that are due for longer than Config.Hold are released.
	awaitingTurn
	// inRound takes what is due from the store, and starts the deliveries.
	inRound
)

// loop serves one partition, one round after the other. Nobody else in this process takes from the partition.
type loop struct {
	partition
	pending <-chan struct{}
	maxHeld int // wake-ups
}

func newLoop(d *Dispatcher, number int) *loop {
	return &loop{
		partition: partition{Dispatcher: d, number: number},
		pending:   d.queue.Pending(number),
		maxHeld:   max(1, d.cfg.Held/d.cfg.Partitions),
	}
}

// run serves the partition until Stop. Then it releases the wake-ups that are held.
func (l *loop) run() {
	for next := idle; l.stopping.Err() == nil; {
		switch next {
		case idle:
			next = l.awaitWork()
		case awaitingTurn:
			next = l.awaitTurn()
		case inRound:
			next = l.makeRound()
		}
	}
	l.endTurn()
	l.release(l.releasing, l.held.popAll())
}

// awaitWork waits until a wake-up is due, or one stands in the queue that may be held.
func (l *loop) awaitWork() state {
	now := time.Now()
	if l.held.due(now, 1) > 0 || l.mayPull() {
		return awaitingTurn
	}
	var due <-chan time.Time
	if at, ok := l.held.next(); ok {
		timer := time.NewTimer(at.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	pending := l.pending
	if l.more { // as many are held as may be
		pending = nil
	}
	select {
	case <-due:
	case <-pending:
		l.more = true
	case <-l.stopping.Done():
	}
	return idle
}

// awaitTurn waits for the partition's turn. Wake-ups that have been due for too long by then are released, so that
// another process can serve them.
func (l *loop) awaitTurn() state {
	l.turn = l.capacity.forRound()
	var overdue <-chan time.Time
	if at, ok := l.held.next(); ok {
		timer := time.NewTimer(time.Until(at.Add(l.cfg.Hold)))
		defer timer.Stop()
		overdue = timer.C
	}
	select {
	case <-l.turn.granted:
		if l.turn.waited && l.turn.tokens == 1 && l.capacity.size > gatherAbove {
			l.pause(gatherTime)
			l.capacity.topUp(l.turn)
		}
		return inRound
	case <-overdue:
		l.endTurn()
		l.release(l.releasing, l.held.pop(time.Now(), releaseBatch))
	case <-l.stopping.Done():
	}
	return idle
}

// makeRound makes one round, and ends the turn. It survives its own panic; the wake-ups that the round asked for are
// lost to this process then, and the store replaces them.
func (l *loop) makeRound() state {
	defer func() {
		if p := recover(); p != nil {
			l.cfg.Log.Error("a partition's loop panicked; continuing with its next round", "partition", l.number, "panic", p,
				"stack", string(debug.Stack()))
			l.endTurn()
			l.pause(lostPause)
		}
	}()
	err := l.round(l.releasing, l.pullCount(time.Now()), l.start)
	l.endTurn()
	if errors.Is(err, ErrLost) {
		l.cfg.Log.Debug("a partition has lost its state; nothing is dispatched from it until it is rebuilt", "partition", l.number)
		l.pause(lostPause)
	}
	return idle
}

// mayPull reports whether something may stand in the queue, and one more wake-up may be held.
func (l *loop) mayPull() bool { return l.more && l.held.size() < l.maxHeld }

// pullCount is how many wake-ups to pull: as many as the next round can ask for, beside those that this one leaves.
func (l *loop) pullCount(now time.Time) int {
	if !l.mayPull() {
		return 0
	}
	select {
	case <-l.pending: // this is the pull that it asks for
	default:
	}
	n := min(takeBatch, l.turn.tokens)
	left := l.held.due(now, 2*takeBatch) - n
	return max(0, min(n-max(0, left), l.maxHeld-l.held.size()))
}

// pause waits; shorter when the dispatcher stops.
func (l *loop) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.stopping.Done():
	}
}
