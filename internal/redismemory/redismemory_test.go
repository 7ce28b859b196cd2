package redismemory_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/redismemory"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Around(m)) }

func TestRatioOf(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]float64{
		"":                                     0,
		"used_memory:50\r\nmaxmemory:0\r\n":    0,
		"used_memory:50\r\nmaxmemory:100\r\n":  0.5,
		"used_memory:200\r\nmaxmemory:100\r\n": 2,
		"used_memory:5\r\nmem_not_counted_for_evict:9\r\nmaxmemory:100\r\n":                           0,
		"used_memory:60\r\nmem_not_counted_for_evict:10\r\nmaxmemory:100\r\nmaxmemory_human:100B\r\n": 0.5,
	} {
		if got := redismemory.RatioOf(info); got != want {
			t.Errorf("%q: %g, want %g", info, got, want)
		}
	}
}

// What is full stays so until clearly less is used; one look more or less at the mark changes nothing.
//
//nolint:paralleltest,tparallel // What was full before decides what is full now.
func TestFullHasTwoMarks(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	watch := redismemory.New(client, slog.New(slog.DiscardHandler))
	if err := watch.Look(t.Context()); err != nil || watch.Full() || watch.Ratio() != 0 {
		t.Fatalf("without a limit: full %t, %g, %v", watch.Full(), watch.Ratio(), err)
	}
	for _, step := range []struct {
		name  string
		ratio float64
		full  bool
	}{
		{name: "below the upper mark", ratio: 0.89},
		{name: "at the upper mark", ratio: 0.9, full: true},
		{name: "still above the lower mark", ratio: 0.86, full: true},
		{name: "below the lower mark", ratio: 0.84},
		{name: "between the marks from below", ratio: 0.89},
		{name: "over its limit", ratio: 1.2, full: true},
	} {
		t.Run(step.name, func(t *testing.T) {
			watch.Note(t.Context(), step.ratio)
			if watch.Full() != step.full {
				t.Errorf("at %g: full is %t", step.ratio, watch.Full())
			}
		})
	}
	var none *redismemory.Watch
	if none.Full() || none.Ratio() != 0 {
		t.Error("no watch is of a full Redis")
	}
}
