package agenda

import (
	"context"
	"slices"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// releasesSteps is how many steps the timetable of one user may take for a forecast, where it goes step by step. What
// goes after that is planned for each backlog by itself.
const releasesSteps = 5000

// releases are told of all that goes in the timetables of one user, for a forecast.
type releases struct {
	forecast *forecast
	weight   float64          // for how many users this one stands
	held     map[string]*held // by category
	cut      bool             // a timetable took too many steps
}

// held is what is deferred in a backlog, and why. What came later is not held yet.
type held struct {
	reason string
	count  int
}

// goes notes that the next n of a category go, all in the same slice.
func (r *releases) goes(category string, n int, at, last throttle.Micros) {
	h := r.held[category]
	if h == nil {
		return
	}
	n = min(n, h.count)
	h.count -= n
	r.forecast.add(h.reason, at, last, float64(n)*r.weight)
}

// ends notes that the next n of a category end without going.
func (r *releases) ends(category string, n int) {
	if h := r.held[category]; h != nil {
		h.count -= min(n, h.count)
	}
}

// addUser adds what is held of a user.
func (f *forecast) addUser(ctx context.Context, u *sampledUser) {
	r := &releases{forecast: f, weight: u.weight, held: map[string]*held{}}
	names := make([]string, 0, len(u.blocked))
	for _, b := range u.blocked {
		reason := player.ReasonOf(f.agendas.cfg.Settings(u.id, b.category).Plan, throttle.CauseOf(b.rule))
		r.held[b.category] = &held{heldBy(reason), deferredOf(b.field, b.size.Val())}
		names = append(names, b.category)
	}
	for _, one := range u.later {
		if category := one.category(); !slices.Contains(names, category) && category != "" {
			names = append(names, category)
		}
	}
	if len(names) == 0 {
		return
	}
	exact := f.agendas.release(ctx, u, names[:min(len(names), categoriesRead)], r)
	for i := range u.later {
		f.addLater(u, &u.later[i])
	}
	f.addPaused(u, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exact = f.exact && exact
}

// release plans when everything goes that is held of a user. It reports whether that is exact.
func (a *Agendas) release(ctx context.Context, u *sampledUser, names []string, r *releases) bool {
	read, err := a.readUser(ctx, u.id, names, nil)
	if err != nil {
		return false
	}
	if read.later.count > len(read.later.ones) {
		read.later.ones = nil // those that were sampled are planned by themselves
	}
	for i := range read.later.ones {
		one := &read.later.ones[i]
		at := slices.IndexFunc(u.later, func(l laterOne) bool { return l.id == one.id })
		if at >= 0 {
			one.count, one.asked = 0, &u.later[at].asked
		}
	}
	p := a.planningOf(u.id, read, nil)
	for _, t := range p.tables {
		t.releases = r
		p.arrive(t)
		t.unreadLater = 0
		if t.plan(ctx) != nil {
			return false
		}
	}
	return !r.cut && read.later.count == len(read.later.ones)
}

// addLater adds one that is later: when its timetable has it go, or when it is due.
func (f *forecast) addLater(u *sampledUser, one *laterOne) {
	category := one.category()
	if category == "" { // it was forgotten meanwhile
		return
	}
	at := one.asked.at
	if at == 0 {
		at = f.agendas.cfg.Settings(u.id, category).Plan.For(u.id).Closed.Open(one.due)
	}
	if !one.asked.dropped {
		f.add(one.reason(), at, at, one.weight)
	}
}

// addPaused adds what waits in paused categories. Nobody knows when somebody resumes them.
func (f *forecast) addPaused(u *sampledUser, r *releases) {
	for category, h := range r.held {
		if reason := f.agendas.cfg.Settings(u.id, category).PausedBy(); reason != "" {
			f.add(reason, never, never, float64(h.count)*r.weight)
		}
	}
}
