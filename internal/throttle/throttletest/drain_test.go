package throttletest_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/throttle/throttletest"
)

// Ten per minute with a gap of 3 s: fifty drain in 267 s, whatever the system does.
func TestDrainIsTheOptimum(t *testing.T) {
	t.Parallel()
	limit := throttle.Rule{Max: 10, Per: time.Minute}
	gap := throttle.Rule{Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap}
	if took := throttletest.Drain(50, limit, gap); took != 267*time.Second {
		t.Errorf("the last of fifty goes after %s, want 267s", took)
	}
}
