package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/receiver"
)

// newsCategory is the one that waits for the morning in the demo's policy.
const newsCategory = "news"

// readers get news, whatever the time.
var readers = []string{"eve", "finn", "gus", "hana", "ivo", "june", "karl", "lena"}

// playNights plays one night after the other, until ctx ends.
func (d *Demo) playNights(ctx context.Context) error {
	for _, night := range d.cfg.Nights {
		if begins := time.Until(night.Begins); begins > 0 {
			d.say("night", "the next night begins in %.0f s", begins.Seconds())
		}
		if !sleep(ctx, time.Until(night.Begins)) || ctx.Err() != nil {
			return nil
		}
		if err := d.playNight(ctx, night); err != nil {
			return err
		}
	}
	return nil
}

// playNight has news come in a night, evenly over what is left of it, and reports how they wait for its end.
func (d *Demo) playNight(ctx context.Context, night Night) error {
	left := time.Until(night.Ends)
	d.say("night", "it is night until %s, for %.0f s: notifications of category %s are held; chat and security still go out",
		night.Ends.Local().Format(time.TimeOnly), left.Seconds(), newsCategory)
	every := left / time.Duration(len(readers)+1)
	for i, reader := range readers {
		left := time.Until(night.Ends)
		news := act{user: reader, category: newsCategory, count: 1, until: night.Ends}
		news.what = fmt.Sprintf("news at night; %d held until morning, in %.0f s", i+1, left.Seconds())
		if err := d.play(ctx, news); err != nil {
			return err
		}
		if !sleep(ctx, min(every, left)) {
			return nil
		}
	}
	if !sleep(ctx, time.Until(night.Ends)) {
		return nil
	}
	d.say("night", "it is morning: the %d held notifications go out, each user's at a different moment, not all at once",
		len(readers))
	if !sleep(ctx, time.Until(night.day())) {
		return nil
	}
	return d.play(ctx, act{
		user: readers[0], category: newsCategory, count: 1, what: "news by day: nothing to wait for",
	})
}

// day is when everybody has begun again after a night.
func (n Night) day() time.Time { return n.Ends.Add(n.Ends.Sub(n.Begins) / 3) }

// sleep waits for a time; it is false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// sinceNight says of what was held in a night how long after its end it came; "" of anything else.
func (d *Demo) sinceNight(a receiver.Arrival) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	end, held := d.held[a.Title]
	if !held {
		return ""
	}
	delete(d.held, a.Title)
	return fmt.Sprintf("%.3f s after the night's end", a.At.Sub(end).Seconds())
}
