package chaos_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// pushChannel is the channel that the cap "push" counts; what is not on it is on the channel log.
const pushChannel = notification.Channel("fcm")

// caps are the limits of a world that count over several categories, or by the calendar. Worlds without any have 0.
type caps struct {
	// Both of chat and news may go together in BothPer seconds: a named cap.
	Both    int `json:"both,omitempty"`
	BothPer int `json:"both_per,omitempty"`
	// Push of chat and free may go by push in PushPer seconds: a named cap of a channel.
	Push    int `json:"push,omitempty"`
	PushPer int `json:"push_per,omitempty"`
	// Daily of news may go in a day. The days of these worlds last DayLasts seconds; those of who lives elsewhere begin
	// in the middle of the others'.
	Daily    int `json:"daily,omitempty"`
	DayLasts int `json:"day_lasts,omitempty"`
}

// The categories that the named caps count.
var (
	bothCounts = []string{"chat", "news"}
	pushCounts = []string{"chat", "free"}
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// longestDay is how long a day is at most, as a limit of the calendar says it.
func (c caps) longestDay() time.Duration { return seconds(c.DayLasts) * 5 / 4 }

// longest is the longest window of any of them.
func (c caps) longest() time.Duration {
	return max(seconds(c.BothPer), seconds(c.PushPer), c.longestDay())
}

// perDay is the limit of news that counts by days; none in many worlds.
func (c caps) perDay() []throttle.Rule {
	if c.Daily == 0 {
		return nil
	}
	return []throttle.Rule{{Max: c.Daily, Per: c.longestDay(), Period: throttle.Day}}
}

// named are the named caps of a category.
func (c caps) named(category string) (rules []throttle.Rule) {
	if c.Both > 0 && slices.Contains(bothCounts, category) {
		rules = append(rules, throttle.Rule{
			Max: c.Both, Per: seconds(c.BothPer), Kind: throttle.KindNamed, Cap: "both",
		})
	}
	if c.Push > 0 && slices.Contains(pushCounts, category) {
		rules = append(rules, throttle.Rule{
			Max: c.Push, Per: seconds(c.PushPer), Kind: throttle.KindNamed, Cap: "push", Channels: string(pushChannel),
		})
	}
	return rules
}

// channel is that of a notification.
func (i item) channel() notification.Channel {
	if i.ByPush {
		return pushChannel
	}
	return notification.ChannelLog
}

// inBoth and inPush tell whether a named cap counts a notification.
func (i item) inBoth() bool { return slices.Contains(bothCounts, i.Category) }
func (i item) inPush() bool { return i.ByPush && slices.Contains(pushCounts, i.Category) }

// daysAhead is how many beginnings of days a process tells Redis, as in the product.
const daysAhead = 8

// dayOf returns the beginning of the day of a user, at home or away, that a moment is in.
func (w *world) dayOf(at time.Time, away bool) time.Time {
	began, day := w.began(), seconds(w.DayLasts)
	if away {
		began = began.Add(-day / 2)
	}
	return began.Add(at.Sub(began).Truncate(day))
}

// boundaries are when days begin for a user.
func (w *world) boundaries(user string, k knowledge) (b throttle.Boundaries) {
	if w.Daily == 0 {
		return b
	}
	begins := w.dayOf(time.Now(), k.away[user])
	for range daysAhead {
		b[throttle.Day-1] = append(b[throttle.Day-1], throttle.MicrosOf(begins))
		begins = begins.Add(seconds(w.DayLasts))
	}
	return b
}

// checkDays is P3 of the limits that count by days: no more went in one, by where any process knew the user to live.
func (w *world) checkDays() []string {
	if w.Daily == 0 {
		return nil
	}
	var broken []string
	for _, d := range w.ledger.all {
		e := w.ledger.entries[d.id]
		if e.Category != "news" || e.bypasses() {
			continue
		}
		fits := false
		for _, k := range w.knownDuring(d.granted.Add(-time.Second), d.admitted.Time().Add(time.Second)) {
			fits = fits || w.before(e, d, w.dayOf(d.admitted.Time(), k.away[e.User])) < w.Daily
		}
		if !fits {
			broken = append(broken, fmt.Sprintf("P3: %s of %s exceeds the %d of its day", e.ID, e.User, w.Daily))
		}
	}
	return broken
}

// before counts the news of a user that were admitted since a moment and before a delivery.
func (w *world) before(e *entry, d *delivery, since time.Time) (n int) {
	for _, o := range w.ledger.all {
		other := w.ledger.entries[o.id]
		if o == d || other.User != e.User || other.Category != e.Category || o.admitted.Time().Before(since) {
			continue
		}
		if !w.forgotten(o, d) && (o.admitted < d.admitted || o.admitted == d.admitted && d.place.after(o.place)) {
			n++
		}
	}
	return n
}
