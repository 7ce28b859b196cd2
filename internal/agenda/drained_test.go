package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// When a crowd will have drained is known from its first deferral on, and stays what it was while the crowd drains.
func TestWhenACrowdIsDrained(t *testing.T) {
	t.Parallel()
	hourly := []throttle.Rule{{Max: 100, Per: time.Hour}}
	cap3s := []throttle.Rule{
		{Max: 1, Per: time.Second}, {Max: 1, Per: 3 * time.Second, Kind: throttle.KindCap},
	}
	for name, c := range map[string]struct {
		rules   []throttle.Rule
		size    int
		optimum time.Duration // from the first to the last
	}{
		"a burst a window":     {rules: crowdRules, size: 1000, optimum: 49*time.Second + 190*time.Millisecond},
		"one by one":           {rules: oncePer3s.Plan.Rules, size: 150, optimum: 149 * 3 * time.Second},
		"less than a window":   {rules: append(hourly, throttle.Rule{Max: 1, Per: time.Minute}), size: 50, optimum: 49 * time.Minute},
		"by the cap of a user": {rules: cap3s, size: 100, optimum: 99 * 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Client(t), agenda.Settings{
				MaxDefer: 240 * time.Hour, Plan: throttle.Plan{Rules: c.rules},
			})
			for range c.size {
				w.accept(agenda.Entry{})
			}
			w.serve()
			for range 10 {
				crowds, err := outlook.Of(w.store).Crowds(t.Context(), 5)
				if err != nil || !crowds.Exact {
					t.Fatal(crowds, err)
				}
				off := crowds.Drained.Sub(start.Add(c.optimum)).Abs()
				if off > c.optimum/50 {
					t.Errorf("after %s it is drained %s after the first, want %s", w.now.Sub(start), crowds.Drained.Sub(start),
						c.optimum)
				}
				w.playUntil(w.now.Add(c.optimum / 12))
			}
			w.drain()
			if crowds, err := outlook.Of(w.store).Crowds(t.Context(), 5); err != nil || !crowds.Drained.IsZero() {
				t.Errorf("drained, it will be drained at %s, %v", crowds.Drained, err)
			}
		})
	}
}

// Of many crowds the one that lasts longest counts, however small it is.
func TestTheLastCrowdCounts(t *testing.T) {
	t.Parallel()
	w := setup(t, oncePer3s)
	w.settings["news"] = agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Hour}}}, MaxDefer: 240 * time.Hour,
	}
	for range 50 {
		w.accept(agenda.Entry{})
	}
	for range 3 {
		w.accept(agenda.Entry{UserID: w.neighbour(), Category: "news"})
	}
	w.serve()
	crowds, err := outlook.Of(w.store).Crowds(t.Context(), 1)
	if err != nil || len(crowds.Largest) != 1 || crowds.Largest[0].UserID != "ada" ||
		!crowds.Drained.Equal(start.Add(2*time.Hour)) {
		t.Errorf("crowds: %+v, %v", crowds, err)
	}
}
