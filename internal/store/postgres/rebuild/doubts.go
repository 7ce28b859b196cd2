package rebuild

import (
	"context"
	"time"
)

const (
	// doubtfulLooks is how often what differs is looked at again, doubtfulPause the time before each look: one store
	// knows of a notification's next step a moment before the other does.
	doubtfulLooks = 3
	doubtfulPause = 200 * time.Millisecond
	// doubtsAtOnce is how many are looked at again together.
	doubtsAtOnce = 1000
)

// doubts are what differed at a first look. What a deployment is about to do differs for a moment; a fault stays. So
// each is looked at again some times, many together, and reported when no look found it in order.
type doubts[E any] struct {
	suspects []E
	// look returns those that still differ.
	look func(context.Context, []E) ([]E, error)
	// found is called with each that differed at every look.
	found func(E) error
}

// add takes in more, and settles them once there are many.
func (d *doubts[E]) add(ctx context.Context, suspects ...E) error {
	d.suspects = append(d.suspects, suspects...)
	if len(d.suspects) < doubtsAtOnce {
		return nil
	}
	return d.settle(ctx)
}

// settle looks at all of them again, and reports those that still differ.
func (d *doubts[E]) settle(ctx context.Context) (err error) {
	suspects := d.suspects
	d.suspects = nil
	for look := 0; look < doubtfulLooks && len(suspects) > 0; look++ {
		timer := time.NewTimer(doubtfulPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if suspects, err = d.look(ctx, suspects); err != nil {
			return err
		}
	}
	for _, s := range suspects {
		if err := d.found(s); err != nil {
			return err
		}
	}
	return nil
}
