package app

import (
	"os"
	"runtime/debug"
)

// heapGrowth is by how many percent the heap may grow before garbage is collected. What lives in a worker is small and
// what it allocates per delivery is short-lived: at Go's own 100 a busy one collects several times a second, for a
// tenth of its deliveries.
const heapGrowth = 400

// CollectLess has this process collect garbage less often, unless GOGC says how often. GOMEMLIMIT bounds the heap as
// ever.
func CollectLess() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(heapGrowth)
	}
}
