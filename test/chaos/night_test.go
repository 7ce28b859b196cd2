package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// knowledge is what a process goes by.
type knowledge struct {
	version int // of the policy
	// away are the users who live in another time zone: there the night comes at another time of the day.
	away map[string]bool
	// read is when the process read that.
	read time.Time
}

// learned is when a process began to go by something else.
type learned struct {
	at   time.Time
	proc int
	knowledge
}

const (
	// byDay is the version of the policy that has no night.
	byDay = 1
	// exemptFrom is the least urgent priority that nights do not hold.
	exemptFrom = notification.PriorityHigh
	// day are the minutes of one, ahead is how far the clocks in Kathmandu are.
	day, ahead calendar.Clock = 24 * 60, 5*60 + 45
)

// sleeps are the categories that a night holds; of the others one is exempt, one bypasses all limits.
var sleeps = []string{"chat", "news"}

// nightOf returns the closed intervals of a user's category: a window of the calendar, in the user's time zone.
func (w *world) nightOf(user, category string, k knowledge) throttle.Closed {
	if w.Night == 0 || k.version == byDay || !slices.Contains(sleeps, category) {
		return nil
	}
	w.worksOut.Do(w.workOutNights)
	return w.nights[k.away[user]]
}

// workOutNights works out the nights, at home and away.
func (w *world) workOutNights() {
	w.nights = map[bool]throttle.Closed{}
	begin := w.began().UTC()
	from := calendar.Clock(60*begin.Hour() + begin.Minute() + w.Dusk)
	to := from + calendar.Clock(w.Night)
	// When the night at home is over, that of those who are away comes a minute later.
	window := calendar.Window{Closed: []calendar.Range{
		{From: from % day, To: to % day}, {From: (to + 1 + ahead) % day, To: (to + 2 + ahead) % day},
	}}
	for away, name := range map[bool]string{false: "UTC", true: "Asia/Kathmandu"} {
		zone, err := calendar.ParseZone(name)
		if err != nil {
			panic(err) // the zones are part of the program
		}
		w.nights[away], _ = window.Next(throttle.MicrosOf(begin.Add(-time.Hour)), zone)
	}
}

// knowledge is what the process goes by.
func (p *process) knowledge() knowledge { return *p.known.Load() }

// learns has a process go by something else from now on. The world is locked.
func (p *process) learns(k knowledge) {
	p.known.Store(&k)
	p.w.history = append(p.w.history, learned{time.Now(), p.number, k})
}

// knownDuring returns what any process went by in a time.
func (w *world) knownDuring(from, until time.Time) []knowledge {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []knowledge
	latest := map[int]knowledge{} // by process
	for _, l := range w.history {
		if l.at.After(until) {
			break
		}
		if before, ok := latest[l.proc]; ok && l.at.After(from) {
			all = append(all, before)
		}
		latest[l.proc] = l.knowledge
	}
	return slices.AppendSeq(all, maps.Values(latest))
}

// mostOf returns the largest of a measure over all versions of the policy that any process knew in a time.
func (w *world) mostOf(from, until time.Time, most func(version int) int) (best int) {
	for _, k := range w.knownDuring(from, until) {
		best = max(best, most(k.version))
	}
	return best
}

// asleep reports whether the night holds a notification at a moment, by all that any process knew since it was granted.
func (w *world) asleep(e *entry, at throttle.Micros, since time.Time) bool {
	from := since
	if at.Time().Before(from) {
		from = at.Time()
	}
	return !slices.ContainsFunc(w.knownDuring(from.Add(-time.Second), at.Time().Add(time.Second)),
		func(k knowledge) bool { return !w.isHeld(e, at, k) })
}

// mayBeAsleep reports whether some process may have taken it that the night holds a notification at a moment.
func (w *world) mayBeAsleep(e *entry, at throttle.Micros) bool {
	return slices.ContainsFunc(w.knownDuring(at.Time().Add(-time.Second), at.Time().Add(time.Second)),
		func(k knowledge) bool { return w.isHeld(e, at, k) })
}

// isHeld reports whether the night holds a notification at a moment, for who goes by some knowledge. What expires while
// its user begins again may go sooner.
func (w *world) isHeld(e *entry, at throttle.Micros, k knowledge) bool {
	if e.Priority <= int(exemptFrom) {
		return false
	}
	expires := throttle.Micros(0)
	if !e.expiresAt.IsZero() {
		expires = throttle.MicrosOf(e.expiresAt)
	}
	plan := throttle.Plan{Closed: w.nightOf(e.User, e.Category, k), Spread: w.spread()}
	return plan.Open(e.User, at, expires) > at
}

func (s setting) spread() time.Duration { return time.Duration(s.Spread) * time.Second }

// checkNights is P3 too: nothing that reached the provider was admitted at night.
func (w *world) checkNights() []string {
	var broken []string
	for _, id := range w.ledger.ids {
		e := w.ledger.entries[id]
		for _, d := range e.deliveries {
			if d.id == id && w.asleep(e, d.admitted, d.granted) {
				broken = append(broken, fmt.Sprintf("P3: %s of %s was admitted at night, at %.3f s", id, e.User,
					d.admitted.Time().Sub(w.began()).Seconds()))
			}
		}
	}
	return broken
}
