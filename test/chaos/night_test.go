package chaos_test

import (
	"context"
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

// nightOf gives the closed intervals of a user's category: a window of the calendar, in the user's time zone.
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

// move has a user live elsewhere, or at home again. The process that writes it down knows it at once.
func (p *process) move(ctx context.Context, user string, away bool) error {
	p.w.mu.Lock()
	p.w.away = maps.Clone(p.w.away)
	p.w.away[user] = away
	p.w.mu.Unlock()
	return p.followUsers(ctx)
}

// followUsers has the process know where the users live, and look at those again who moved.
func (p *process) followUsers(ctx context.Context) error {
	p.w.mu.Lock()
	before, after := p.knowledge(), p.w.away
	if !maps.Equal(before.away, after) {
		p.learns(knowledge{before.version, after})
	}
	p.w.mu.Unlock()
	if p.w.mutation == "who moves is not looked at again" {
		return nil
	}
	for _, user := range users {
		if before.away[user] == after[user] {
			continue
		}
		if _, err := p.agendas.WakePersonal(ctx, p.agendas.PartitionOf(user), user); err != nil {
			return fmt.Errorf("look at %s again: %w", user, err)
		}
	}
	return nil
}

// knownDuring gives what any process went by in a time.
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

// mostOf gives the largest of a measure over all versions of the policy that any process knew in a time.
func (w *world) mostOf(from, until time.Time, most func(version int) int) (best int) {
	for _, k := range w.knownDuring(from, until) {
		best = max(best, most(k.version))
	}
	return best
}

// asleep tells whether the night holds a notification at a moment, by all that any process knew since it was granted.
func (w *world) asleep(e *entry, at throttle.Micros, since time.Time) bool {
	if e.Priority <= int(exemptFrom) {
		return false
	}
	from := since
	if at.Time().Before(from) {
		from = at.Time()
	}
	for _, k := range w.knownDuring(from.Add(-time.Second), at.Time().Add(time.Second)) {
		plan := throttle.Plan{Closed: w.nightOf(e.User, e.Category, k), Spread: w.spread()}.For(e.User)
		if plan.Closed.Open(at) == at {
			return false
		}
	}
	return true
}

func (s setting) spread() time.Duration { return time.Duration(s.Spread) * time.Second }

// checkNights is P3 too: nothing that reached the provider was admitted at night.
func (w *world) checkNights() []string {
	var broken []string
	for _, id := range w.ledger.ids {
		e := w.ledger.entries[id]
		for _, d := range e.deliveries {
			if w.asleep(e, d.admitted, d.granted) {
				broken = append(broken, fmt.Sprintf("P3: %s of %s was admitted at night, at %.3f s", id, e.User,
					d.admitted.Time().Sub(w.began()).Seconds()))
			}
		}
	}
	return broken
}
