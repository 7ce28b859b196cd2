package agenda

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
	for _, u := range users {
		asking.Go(func() error { f.addUser(ctx, u); return nil })
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

// add adds what is released from one moment to another in the same slice, or behind all slices; or at a moment that
// nobody knows, which is never.
func (f *forecast) add(reason string, at, last throttle.Micros, n float64) {
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
	at, last = max(at, f.now), max(last, f.now)
	if h.first == 0 || at < h.first {
		h.first = at
	}
	h.last = max(h.last, last)
	if slice := int(at.Sub(f.from) / forecastSlice); slice < forecastSlices {
		h.released[slice] += n
	} else {
		h.later += n
	}
}

// sliceEnd is when the slice ends in which a moment lies. What is later than all slices is not told apart.
func (f *forecast) sliceEnd(at throttle.Micros) throttle.Micros {
	end := f.from.Add(max(0, at.Sub(f.from))/forecastSlice*forecastSlice + forecastSlice)
	if end > f.from.Add(forecastSlices*forecastSlice) {
		return never
	}
	return end
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
