// Package beat has the loops of a process look at the same moments. A process that has nothing to do pays for waking
// up, not for what it asks then: the processor, the kernel and both stores wake up once for many looks. So each ticker
// beats at the multiples of its interval, and intervals that divide one another come together:
//
//	250 ms  | | | | | | | | |
//	500 ms  |   |   |   |   |
//	1 s     |       |       |
//
// The loops know nothing of each other, and none waits for another.
package beat

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// phase is how much later than the multiples of the wall clock this process beats, in ns.
var phase atomic.Int64

// Spread has this process beat at other moments than others, whose looks would otherwise reach the stores at once. A
// process does so as it starts.
func Spread() { phase.Store(rand.Int64N(int64(time.Second))) } //nolint:gosec // spread, no secret

// Until is how long it is until the next beat at an interval; 0 for none.
func Until(interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	return interval - time.Duration((time.Now().UnixNano()-phase.Load())%int64(interval))
}

// Ticker beats at an interval. It must be stopped.
type Ticker struct {
	// C receives a beat. Whoever takes it calls [Ticker.Next] at once, before the work that it is for, so that a beat
	// which comes meanwhile is not lost.
	C <-chan time.Time

	timer    *time.Timer
	interval time.Duration
}

// NewTicker makes a ticker. The first beat comes after an interval at most.
func NewTicker(interval time.Duration) *Ticker {
	timer := time.NewTimer(Until(interval))
	return &Ticker{C: timer.C, timer: timer, interval: interval}
}

// Next has the next beat come. A beat that came early, because the wall clock was set back a little, is not repeated.
func (t *Ticker) Next() {
	wait := Until(t.interval)
	if wait < t.interval/16 {
		wait += t.interval
	}
	t.timer.Reset(wait)
}

// Stop ends the beats.
func (t *Ticker) Stop() { t.timer.Stop() }
