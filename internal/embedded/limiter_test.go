package embedded_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Keys go up to half a second early here. The limiter's windows must hold all the same, wherever in a sweep they begin.
func TestLimiterHoldsAlthoughKeysGoEarly(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 700 * time.Millisecond, 1400 * time.Millisecond} {
		for _, algorithm := range []throttle.Algorithm{throttle.Rolling, throttle.FixedWindow, throttle.TokenBucket} {
			synctest.Test(t, func(t *testing.T) {
				limiter := throttle.NewRedis(start(t).Client(), func(string) string { return "t:{x}:" })
				plan := throttle.Plan{Algorithm: algorithm, Rules: []throttle.Rule{{Max: 1, Per: gap, Kind: throttle.KindGap}}}
				<-time.After(490 * time.Millisecond) // 10 ms before a sweep
				var last time.Time
				for range 600 {
					decision, err := limiter.Allow(t.Context(), throttle.Key{User: "u", Category: "c"}, plan, time.Now().String())
					if err != nil {
						t.Fatal(err)
					}
					if decision.Allowed {
						if !last.IsZero() && time.Since(last) < gap {
							t.Errorf("algorithm %d: %s after one comes the next, want at least %s", algorithm, time.Since(last), gap)
						}
						last = time.Now()
					}
					<-time.After(5 * time.Millisecond)
				}
			})
		}
	}
}
