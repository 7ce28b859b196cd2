package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is by how many percent the heap may grow before garbage is collected. A worker keeps little, and what a
// delivery allocates lives shortly. With Go's own 100, a busy worker collects several times a second, and a tenth of
// its deliveries per second are lost to that.
const heapGrowth = 400

// CollectLess has this process collect garbage less often, unless GOGC says how often. GOMEMLIMIT bounds the heap.
func CollectLess() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
}
