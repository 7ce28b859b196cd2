package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// heapGrowth is by how many percent the heap may grow before garbage is collected. A worker keeps little, and what
	// a delivery allocates lives shortly. With Go's own 100, a busy worker collects several times a second, and a tenth
	// of its deliveries per second are lost to that.
	heapGrowth = 400
	// memoryShare of the limit is what Go may use. What it does not count, such as the stacks of C and the files that
	// the kernel keeps, has to fit into what is left.
	memoryShare = 0.9
)

// tuneMemory has this process collect garbage less often, until it nears the memory limit of its container or service.
// What GOGC and GOMEMLIMIT say goes first. Without a limit on the process there is none.
func tuneMemory(log *slog.Logger) { tuneMemoryTo(log, memlimit.FromCgroup) }

func tuneMemoryTo(log *slog.Logger, limit memlimit.Provider) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
	if _, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(limit)); err != nil {
		log.Warn("could not read the memory limit of this process; set GOMEMLIMIT where memory is short", "error", err)
	}
}
