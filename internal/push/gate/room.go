package gate

import (
	"context"
	"slices"
	"sync"
	"time"
)

// silentAfter is how long the calls in a room may be without a response before nobody waits for a place in it any more.
// A call that waits takes the dispatcher's room from other hosts.
const silentAfter = 250 * time.Millisecond

// room has places for calls, of which some are open. Whoever waits for one gets it in turn.
type room struct {
	first, most int // the fewest that failures leave open, and all

	mu     sync.Mutex
	open   int
	ease   int             // from so many open places on, it takes as many responses as there are to open one more
	earned int             // responses since the last one was opened
	calls  int             // that have a place
	heard  time.Time       // the latest response, or the first call after a time without calls
	line   []chan struct{} // those who wait; closed when it is their turn
}

func newRoom(first, most int) *room { return &room{first: first, most: most, open: first, ease: most} }

// enter takes a place. It waits a little for one while responses come, and at most as long as it may.
func (r *room) enter(ctx context.Context, most time.Duration) bool {
	r.mu.Lock()
	if r.calls < r.open && len(r.line) == 0 {
		r.take()
		r.mu.Unlock()
		return true
	}
	patience := min(silentAfter-r.silence(), most)
	if patience <= 0 {
		r.mu.Unlock()
		return false
	}
	turn := make(chan struct{})
	r.line = append(r.line, turn)
	r.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-turn:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return !r.stepOut(turn)
}

// stepOut leaves the line; false when it was this one's turn just now.
func (r *room) stepOut(turn chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.line, turn)
	if at < 0 {
		return false
	}
	r.line = slices.Delete(r.line, at, at+1)
	return true
}

// take gives a place away. The lock is held.
func (r *room) take() {
	if r.calls == 0 {
		r.heard = time.Now()
	}
	r.calls++
}

// leave returns a call's place. A response opens one more, a failure closes one, and a host that asks to slow down
// keeps half. After that places open slowly, as in TCP's congestion avoidance: where it asked is near.
func (r *room) leave(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	switch o {
	case responded:
		if r.earned++; r.open < r.ease || r.earned >= r.open {
			r.open, r.earned = min(r.open+1, r.most), 0
		}
	case slowed:
		r.open = max(r.open/2, 1)
		r.ease, r.earned = r.open, 0
	case failed:
		r.open = max(r.open-1, min(r.open, r.first))
	case notCalled, dripping:
	}
	if o == responded || o == slowed || o == dripping {
		r.heard = time.Now()
	}
	for r.calls < r.open && len(r.line) > 0 {
		close(r.line[0])
		r.line = slices.Delete(r.line, 0, 1)
		r.take()
	}
}

// inFlight counts the calls.
func (r *room) inFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

// silent is how long calls have been in flight without a response to any.
func (r *room) silent() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silence()
}

// silence is silent for those who hold the lock.
func (r *room) silence() time.Duration {
	if r.calls == 0 {
		return 0
	}
	return time.Since(r.heard)
}
