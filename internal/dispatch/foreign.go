package dispatch

import (
	"context"
	"errors"
	"time"
)

// errForeign is why a task is put aside.
var errForeign = errors.New("this task is no wake-up of pacer's")

// archiveTries is how often a task is tried to be put aside. Then the queue brings it again.
const archiveTries = 8

// putAside archives a task that is no wake-up, for people to look at.
func (d *Dispatcher) putAside(partition int, t Task) {
	d.cfg.Log.Warn("a task of the queue is no wake-up; it is archived", "partition", partition, "task", t.ID)
	pause := firstRoundPause
	for range archiveTries {
		err := d.archive(partition, t)
		if err == nil {
			return
		}
		d.cfg.Log.Warn("could not archive a task that is no wake-up; it is tried again", "partition", partition, "task", t.ID, "error", err)
		if !d.rest(pause) {
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
	ctx, cancel := context.WithTimeout(d.ending, d.cfg.SendTimeout)
	defer cancel()
	return d.queue.Archive(ctx, partition, t, errForeign)
}

// rest waits; false when the farewell is over before.
func (d *Dispatcher) rest(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.ending.Done():
		return false
	}
}
