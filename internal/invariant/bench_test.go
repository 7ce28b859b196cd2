package invariant_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// history is a source of 100,000 admissions: one each minute for a thousand users, in four categories by turns.
func history(start time.Time) []invariant.Admission {
	var all []invariant.Admission
	for user := range 1000 {
		for minute := range 100 {
			all = append(all, invariant.Admission{
				ID: fmt.Sprintf("n%d-%d", user, minute), UserID: fmt.Sprintf("user-%d", user),
				Category: fmt.Sprintf("category-%d", minute%4),
				At:       throttle.MicrosOf(start.Add(time.Duration(minute) * time.Minute)),
				Priority: notification.PriorityNormal,
			})
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same order in every run
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// copies is a source that gives a copy of a history, because the checker sorts what it is given.
type copies []invariant.Admission

// Admissions implements [invariant.Source].
func (c copies) Admissions(context.Context, throttle.Micros, throttle.Micros,
	func(string) time.Duration,
) ([]invariant.Admission, error) {
	return slices.Clone(c), nil
}

// EachOpen implements [invariant.Source].
func (copies) EachOpen(context.Context, time.Time, func(invariant.Open) error) error { return nil }

// A round over a history in which no limit was exceeded.
func BenchmarkRound(b *testing.B) {
	start := time.Now().Add(time.Minute)
	source := copies(history(start))
	limits := invariant.Limits{Plan: throttle.Plan{Rules: []throttle.Rule{
		{Max: 1, Per: 4 * time.Minute},
		{Max: 360, Per: 24 * time.Hour},
		{Max: 60, Per: time.Hour, Kind: throttle.KindCap},
	}}}
	b.ReportAllocs()
	for b.Loop() {
		checker := invariant.New(invariant.Config{
			Source:  source,
			Limits:  func(string, string) invariant.Limits { return limits },
			Window:  func(string) time.Duration { return 24 * time.Hour },
			InForce: func() time.Time { return time.Time{} },
			Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return nil, nil },
			Found: func(violations, _ int) {
				if violations != 0 {
					b.Fatalf("%d violations", violations)
				}
			},
			Log: slog.New(slog.DiscardHandler),
		})
		if err := checker.Round(b.Context(), start.Add(2*time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(source))*float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
}
