package storetest

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// heapMost is how much memory a job may hold beside what is there before it, however many rows it goes through.
const heapMost = 64 << 20

// WantSmallHeap does a job, and fails when it ever holds more memory than it may.
func WantSmallHeap(tb testing.TB, job string, do func()) {
	tb.Helper()
	idle, began := heapInUse(), time.Now()
	ended, most := make(chan struct{}), make(chan uint64)
	go func() {
		highest := idle
		for done := false; !done; {
			select {
			case <-ended:
				done = true
			case <-time.After(500 * time.Millisecond):
				highest = max(highest, heapInUse())
			}
		}
		most <- highest
	}()
	do()
	close(ended)
	held := <-most - idle
	tb.Logf("%s: %d KiB beside the %d KiB of an idle process, in %s", job, held>>10, idle>>10,
		time.Since(began).Round(time.Millisecond))
	if held > heapMost {
		tb.Errorf("%s held %d MiB, want at most %d", job, held>>20, heapMost>>20)
	}
}

// heapInUse is what is left after a collection.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// CheckMany has an invariant checker go through what a store with many rows admitted from a moment until now, and
// returns how many violations of a rule it found.
func CheckMany(tb testing.TB, store invariant.Source, from, now time.Time, rule throttle.Rule) (violations int) {
	tb.Helper()
	limits := invariant.Limits{Plan: throttle.Plan{Rules: []throttle.Rule{rule}}}
	checker := invariant.New(invariant.Config{
		Source: store, Log: slog.New(slog.DiscardHandler), Behind: time.Millisecond,
		Limits:  func(string, string) invariant.Limits { return limits },
		Window:  func(string) time.Duration { return rule.Per },
		MaxLife: func(invariant.Open) time.Duration { return 48 * time.Hour },
		InForce: func() time.Time { return time.Time{} }, Paused: func(invariant.Open) bool { return false },
		Cleared: func(context.Context, time.Time) (map[string]time.Time, error) { return nil, nil },
		Now:     func() time.Time { return from },
		Found:   func(found, _ int) { violations = found },
	})
	WantSmallHeap(tb, "checker", func() {
		if err := checker.Round(tb.Context(), now); err != nil {
			tb.Error(err)
		}
	})
	return violations
}
