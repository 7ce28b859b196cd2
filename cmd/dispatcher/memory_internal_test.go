package main

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// It changes settings of its own process, so it is not parallel.
func TestTuneMemory(t *testing.T) {
	const limit = 512 << 20
	for _, test := range []struct {
		name      string
		env       map[string]string
		limit     memlimit.Provider
		wantLimit int64
		wantGC    int
		wantLog   string
	}{
		{
			name: "a container's limit, less what Go does not count", limit: memlimit.Limit(limit),
			wantLimit: limit / 10 * 9, wantGC: heapGrowth,
		},
		{
			name: "no limit", limit: func() (uint64, error) { return 0, memlimit.ErrNoLimit },
			wantLimit: math.MaxInt64, wantGC: heapGrowth,
		},
		{
			name: "GOMEMLIMIT goes first", limit: memlimit.Limit(limit), env: map[string]string{"GOMEMLIMIT": "1GiB"},
			wantLimit: math.MaxInt64, wantGC: heapGrowth, // Go itself has read it before the test began
		},
		{
			name: "GOGC goes first", limit: memlimit.Limit(limit), env: map[string]string{"GOGC": "50"},
			wantLimit: limit / 10 * 9, wantGC: 50,
		},
		{
			name: "no limit can be read", limit: func() (uint64, error) { return 0, errors.New("no such file") },
			wantLimit: math.MaxInt64, wantGC: heapGrowth, wantLog: "set GOMEMLIMIT",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			oldGC, oldLimit := debug.SetGCPercent(50), debug.SetMemoryLimit(math.MaxInt64)
			t.Cleanup(func() {
				debug.SetGCPercent(oldGC)
				debug.SetMemoryLimit(oldLimit)
			})
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			var log strings.Builder
			tuneMemoryTo(slog.New(slog.NewTextHandler(&log, nil)), test.limit)
			gotGC := debug.SetGCPercent(50)
			gotLimit := debug.SetMemoryLimit(-1)
			if diff := gotLimit - test.wantLimit; diff > 10 || diff < -10 || gotGC != test.wantGC {
				t.Errorf("the limit is %d, want %d; GOGC is %d, want %d", gotLimit, test.wantLimit, gotGC, test.wantGC)
			}
			if (test.wantLog == "") != (log.Len() == 0) || !strings.Contains(log.String(), test.wantLog) {
				t.Errorf("the log says %q, want %q", log.String(), test.wantLog)
			}
		})
	}
}
