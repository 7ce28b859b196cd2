package outlook

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// forecastSlices is how many slices of time a forecast has, forecastSlice how long each is.
	forecastSlices = 48
	forecastSlice  = 30 * time.Minute
)

// Forecast says what is held now, and what of it will be released when in the coming 24 hours, by the limits and the
// hours in force. Of many users it reads some, evenly over the moments of their wake-ups, and lets each stand for those
// between. What a partition holds that can't be read is missing.
func (a *Agendas) Forecast(ctx context.Context, now time.Time) stats.Forecast {
	from := now.UTC().Truncate(forecastSlice) // so that a slice stays the same from one forecast to the next
	f := forecast{
		agendas: a, now: throttle.MicrosOf(now), from: throttle.MicrosOf(from),
		held: map[string]*heldFor{}, exact: true,
	}
	users, all := a.sampleUsers(ctx)
	whole := a.readAgendas(ctx, users)
	var asking errgroup.Group
	asking.SetLimit(readers)
	share := mostStandIns / max(1, len(users))
	for _, u := range users {
		asking.Go(func() error { f.addUser(ctx, u, share); return nil })
	}
	_ = asking.Wait() // what could not be read makes the forecast inexact
	return f.result(from, all && whole && f.exact)
}

// forecast is a forecast that is being made.
type forecast struct {
	agendas   *Agendas
	now, from throttle.Micros

	mu    sync.Mutex
	held  map[string]*heldFor
	exact bool
}

// heldFor is what is held for one reason. A user may stand for several, so it has fractions.
type heldFor struct {
	count, later float64
	released     [forecastSlices]float64
	first, last  throttle.Micros // 0 while it is not known when any of it goes
}

// add adds what is released at a moment; at one that nobody knows, which is never.
func (f *forecast) add(reason string, at throttle.Micros, n float64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[reason]
	if h == nil {
		h = &heldFor{}
		f.held[reason] = h
	}
	h.count += n
	if at == never {
		h.later += n
		return
	}
	at = max(at, f.now)
	if h.first == 0 || at < h.first {
		h.first = at
	}
	h.last = max(h.last, at)
	if slice := int(at.Sub(f.from) / forecastSlice); slice < forecastSlices {
		h.released[slice] += n
	} else {
		h.later += n
	}
}

// result puts the forecast together.
func (f *forecast) result(from time.Time, exact bool) stats.Forecast {
	all := stats.Forecast{From: from, Slice: forecastSlice.Seconds(), Exact: exact}
	for reason, h := range f.held {
		one := stats.Held{
			Reason: reason, Count: whole(h.count), Released: make([]int64, forecastSlices), Later: whole(h.later),
		}
		if h.first > 0 {
			one.First, one.Last = h.first.Time().UTC(), h.last.Time().UTC()
		}
		for i, n := range h.released {
			one.Released[i] = whole(n)
		}
		all.Reasons = append(all.Reasons, one)
	}
	slices.SortFunc(all.Reasons, func(a, b stats.Held) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return all
}

func whole(n float64) int64 { return int64(math.Round(n)) }

// heldBy returns the reason under which a rule is told: a limit's number matters to one user only.
func heldBy(rule string) string {
	switch {
	case strings.HasPrefix(rule, "user_cap "):
		return stats.HeldByUserCap
	case rule == "", strings.HasPrefix(rule, "limit "), strings.HasPrefix(rule, "min_gap "):
		return stats.HeldByLimits
	}
	return rule
}

// held is what is deferred in a backlog, and why. What came later is not held yet.
type held struct {
	reason string
	count  int
}

// addUser plays what is held of a user, with others that stand in for what is not read.
func (f *forecast) addUser(ctx context.Context, u *sampledUser, standIns int) {
	all, names := map[string]*held{}, make([]string, 0, len(u.blocked))
	for _, b := range u.blocked {
		reason := player.ReasonOf(f.agendas.planOf(u.id, b.category), throttle.CauseOf(b.rule))
		all[b.category] = &held{heldBy(reason), deferredOf(b.field, b.size.Val())}
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
	exact := f.play(ctx, u, names[:min(len(names), categoriesRead)], standIns, all)
	for category, h := range all { // nobody knows when somebody resumes what is paused
		reason := f.agendas.SettingsOf(u.id, category).PausedBy()
		exact = exact && (reason != "" || h.count == 0)
		f.add(cmp.Or(reason, h.reason), never, float64(h.count)*u.weight)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.exact = f.exact && exact
}

// play adds all that goes of what is held of a user. It reports whether that is exact.
func (f *forecast) play(ctx context.Context, u *sampledUser, names []string, standIns int, all map[string]*held) bool {
	l, err := f.agendas.look(ctx, u.id, nil, names)
	if err != nil {
		return false
	}
	l.standIns = max(firstLook, standIns)
	exact := l.later.count == 0
	l.Agenda().LaterUnread(0, 0) // what was not read goes when it is due
	fates := make([]*player.Fate, len(u.later))
	sampled := map[*player.Note]bool{}
	for i := range u.later {
		if n := l.notes[u.later[i].id]; n != nil {
			fates[i], sampled[n] = l.Ask(n), true
		}
	}
	l.Hear(func(n *player.Note) {
		h := all[n.Category]
		if h == nil || h.count == 0 || sampled[n] {
			return
		}
		if h.count--; n.Status == notification.StatusSending {
			f.add(h.reason, n.Admitted, u.weight)
		}
	})
	if l.Play(func() bool { return false }) != nil {
		return false
	}
	for i := range u.later {
		f.addLater(u.id, &u.later[i], fates[i])
	}
	return exact
}

// addLater adds one that is later: when it goes in the play, or when it is due.
func (f *forecast) addLater(userID string, one *laterOne, fate *player.Fate) {
	category := one.category()
	switch {
	case category == "": // it was forgotten meanwhile
	case fate != nil && fate.Goes:
		f.add(one.reason(), fate.At, one.weight)
	case fate == nil || fate.Reason == "":
		f.add(one.reason(), f.agendas.planOf(userID, category).For(userID).Closed.Open(one.due), one.weight)
	}
}
