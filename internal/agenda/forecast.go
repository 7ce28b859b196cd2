package agenda

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

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
//
// The first of each backlog goes at the moment that its agenda has. For those behind it the forecast takes the pace of
// the limits; what the windows hold already it does not read.
func (s *Agendas) Forecast(ctx context.Context, now time.Time) stats.Forecast {
	from := now.UTC().Truncate(forecastSlice) // so that a slice stays the same from one forecast to the next
	f := forecast{now: throttle.MicrosOf(now), from: throttle.MicrosOf(from), held: map[string]*heldFor{}}
	users, all := s.sampleUsers(ctx)
	whole := s.readAgendas(ctx, users)
	for _, u := range users {
		for _, b := range u.blocked {
			f.addBacklog(s.cfg.Settings(u.id, b.category).Plan.For(u.id), b, u.weight)
		}
		for _, one := range u.later {
			f.addLater(s, u.id, one)
		}
	}
	return f.result(from, all && whole)
}

// forecast is a forecast that is being made.
type forecast struct {
	now, from throttle.Micros
	held      map[string]*heldFor
}

// heldFor is what is held for one reason. A user may stand for several, so it has fractions.
type heldFor struct {
	count, later float64
	released     [forecastSlices]float64
	first, last  throttle.Micros
}

// add adds what is released at a moment.
func (f *forecast) add(reason string, at throttle.Micros, n float64) {
	at = max(at, f.now)
	h := f.held[reason]
	if h == nil {
		h = &heldFor{first: at, last: at}
		f.held[reason] = h
	}
	h.count += n
	h.first, h.last = min(h.first, at), max(h.last, at)
	if slice := int(at.Sub(f.from) / forecastSlice); slice < forecastSlices {
		h.released[slice] += n
	} else {
		h.later += n
	}
}

// addBacklog adds what is deferred in a backlog, slice by slice.
func (f *forecast) addBacklog(plan throttle.Plan, b blocked, weight float64) {
	n := deferredOf(b.field, b.size.Val())
	p, reason := paceOf(plan, b, n), heldBy(ReasonOf(plan, throttle.CauseOf(b.rule)))
	for done := 0; done < n; {
		at := p.slot(done)
		until := f.from.Add(max(0, at.Sub(f.from))/forecastSlice*forecastSlice + forecastSlice)
		if until > f.from.Add(forecastSlices*forecastSlice) {
			until = math.MaxInt64 // nothing later is told apart
		}
		together := sort.Search(n-done-1, func(i int) bool { return p.slot(done+i+1) >= until }) + 1
		f.add(reason, at, float64(together)*weight)
		f.held[reason].last = max(f.held[reason].last, p.slot(done+together-1))
		done += together
	}
}

// addLater adds one that is later.
func (f *forecast) addLater(s *Agendas, userID string, one laterOne) {
	about := one.about.Val()
	if len(about) == 0 || about[0] == nil { // it was forgotten meanwhile
		return
	}
	category, _ := about[0].(string)
	reason := stats.HeldForRetry
	switch {
	case about[2] != nil:
		reason = stats.HeldForProvider
	case about[1] == "t":
		reason = stats.HeldBySchedule
	}
	f.add(reason, s.cfg.Settings(userID, category).Plan.For(userID).Closed.Open(one.due), one.weight)
}

// result puts the forecast together.
func (f *forecast) result(from time.Time, exact bool) stats.Forecast {
	all := stats.Forecast{From: from, Slice: forecastSlice.Seconds(), Exact: exact}
	for reason, h := range f.held {
		one := stats.Held{
			Reason: reason, Count: whole(h.count), First: h.first.Time().UTC(), Last: h.last.Time().UTC(),
			Released: make([]int64, forecastSlices), Later: whole(h.later),
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

// heldBy gives the reason under which a rule is told: a limit's number matters to one user only.
func heldBy(rule string) string {
	switch {
	case strings.HasPrefix(rule, "user_cap "):
		return stats.HeldByUserCap
	case rule == "", strings.HasPrefix(rule, "limit "), strings.HasPrefix(rule, "min_gap "):
		return stats.HeldByLimits
	}
	return rule
}

// pace is how fast a backlog goes from its first slot on: in stretches, with a closed interval between two.
type pace struct {
	rules     []throttle.Rule
	stretches []stretch
}

// stretch is an open stretch of time: when the first goes in it, how many have gone before it, and the index of the
// rule whose window is full until then, if any. A closed interval empties the windows.
type stretch struct {
	first  throttle.Micros
	before int
	full   int
}

// paceOf works out the stretches in which n of a backlog go.
func paceOf(plan throttle.Plan, b blocked, n int) pace {
	p := pace{rules: plan.Rules}
	now := stretch{first: plan.Closed.Open(b.next), full: int(b.rule) - 1}
	for _, closed := range plan.Closed {
		if closed.Until <= now.first {
			continue
		}
		left := max(0, n-now.before)
		p.stretches = append(p.stretches, now)
		fit := sort.Search(left, func(k int) bool { return p.in(now, k) >= closed.From })
		if fit == left {
			return p
		}
		now = stretch{first: closed.Until, before: now.before + fit, full: throttle.NoRule}
	}
	p.stretches = append(p.stretches, now)
	return p
}

// in is when the one goes that has k before it in its stretch. An empty window takes all it can at once; a full one
// becomes free evenly.
func (p pace) in(s stretch, k int) throttle.Micros {
	needed := 0.0
	for i, r := range p.rules {
		windows := float64(k / r.Max)
		if i == s.full {
			windows = float64(k) / float64(r.Max)
		}
		needed = max(needed, windows*float64(r.Per))
	}
	return s.first.Add(time.Duration(min(needed, math.MaxInt64/4)))
}

// slot is when the one goes that has k of the backlog before it.
func (p pace) slot(k int) throttle.Micros {
	last := p.stretches[0]
	for _, s := range p.stretches {
		if s.before <= k {
			last = s
		}
	}
	return p.in(last, k-last.before)
}
