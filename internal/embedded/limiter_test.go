package embedded_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Keys go up to half a second early here. The limiter's windows must hold all the same, wherever in a sweep they begin:
// this one begins just before a sweep, which takes half a second off the life of its key.
func TestLimiterHoldsAlthoughKeysGoEarly(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{100 * time.Millisecond, 700 * time.Millisecond, 1400 * time.Millisecond} {
		for _, algorithm := range throttle.Algorithms() {
			t.Run(fmt.Sprintf("a gap of %s, algorithm %d", gap, algorithm), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					limiter := throttle.NewRedis(start(t).Client(), func(string) string { return "t:{x}:" })
					plan := throttle.Plan{
						Algorithm: algorithm, Rules: []throttle.Rule{{Max: 1, Per: gap, Kind: throttle.KindGap}},
					}
					key := throttle.Key{User: "u", Category: "c"}
					<-time.After(coarse - 10*time.Millisecond)
					begin := time.Now()
					for _, moment := range []struct { // not under t.Run, which a bubble of synctest refuses
						name    string
						after   time.Duration
						allowed bool
					}{
						{name: "the first", allowed: true},
						{name: "after the sweep", after: 15 * time.Millisecond},
						{name: "just within the gap", after: gap - time.Millisecond},
						{name: "after the gap", after: gap, allowed: true},
					} {
						<-time.After(time.Until(begin.Add(moment.after)))
						decision, err := limiter.Allow(t.Context(), key, plan, moment.after.String())
						if err != nil {
							t.Fatal(err)
						}
						if decision.Allowed != moment.allowed {
							t.Errorf("%s, %s after the first, is allowed: %t, want %t", moment.name, moment.after,
								decision.Allowed, moment.allowed)
						}
					}
				})
			})
		}
	}
}
