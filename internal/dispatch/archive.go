package dispatch

import (
	"context"
	"errors"
	"time"
)

// errForeign is the reason of an archived task.
var errForeign = errors.New("not a wake-up of pacer's")

// archiveTries is how often archiving a task is tried. Then it stays active until the queue delivers it again.
const archiveTries = 8

// archiveForeign archives a task that is not a wake-up, for people to look at. It retries for a while.
func (d *Dispatcher) archiveForeign(partition int, t Task) {
	d.cfg.Log.Warn("found a task in the queue that is not a wake-up; archiving it", "partition", partition,
		"task", t.ID)
	pause := firstRoundPause
	for range archiveTries {
		err := d.archive(partition, t)
		if err == nil {
			return
		}
		d.cfg.Log.Warn("could not archive a task that is not a wake-up; retrying", "partition", partition, "task", t.ID,
			"error", err)
		if !d.waitForRetry(pause) {
			return
		}
		pause = min(2*pause, longestRoundPause)
	}
}

func (d *Dispatcher) archive(partition int, t Task) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the queue panicked")
		}
	}()
	ctx, cancel := context.WithTimeout(d.releasing, d.cfg.ClaimTimeout)
	defer cancel()
	return d.queue.Archive(ctx, partition, t, errForeign)
}

// waitForRetry waits; false when the dispatcher ends before.
func (d *Dispatcher) waitForRetry(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.releasing.Done():
		return false
	}
}
