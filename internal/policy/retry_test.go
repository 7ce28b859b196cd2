package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/policy"
)

// The extremes of a generator of uniform numbers.
func lowest() float64  { return 0 }
func highest() float64 { return math.Nextafter(1, 0) }

func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	t.Parallel()
	r := policy.Retry{MaxAttempts: 8, MinBackoff: time.Second, MaxBackoff: 10 * time.Second}
	half := func() float64 { return 0.5 }
	for name, test := range map[string]struct {
		failures int
		want     time.Duration // the middle between 1 s and the ceiling
	}{
		"first failure: 2 s at most":            {failures: 1, want: 1500 * time.Millisecond},
		"second failure: 4 s at most":           {failures: 2, want: 2500 * time.Millisecond},
		"third failure: 8 s at most":            {failures: 3, want: 4500 * time.Millisecond},
		"fourth failure: 16 s, cut to 10 s":     {failures: 4, want: 5500 * time.Millisecond},
		"fifth failure":                         {failures: 5, want: 5500 * time.Millisecond},
		"more failures than doublings fit":      {failures: math.MaxInt, want: 5500 * time.Millisecond},
		"no failure counts as the first":        {failures: 0, want: 1500 * time.Millisecond},
		"a negative number counts as the first": {failures: -7, want: 1500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := r.Backoff(test.failures, half); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestBackoffStaysInItsRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shortest := rapid.Int64Range(1, int64(policy.MaxWait)).Draw(t, "min")
		longest := rapid.Int64Range(shortest, int64(policy.MaxWait)).Draw(t, "max")
		r := policy.Retry{MinBackoff: time.Duration(shortest), MaxBackoff: time.Duration(longest)}
		failures := rapid.Int().Draw(t, "failures")
		number := rapid.Float64Range(0, highest()).Draw(t, "random")

		wait := r.Backoff(failures, func() float64 { return number })
		if wait < r.MinBackoff || wait > r.MaxBackoff {
			t.Fatalf("wait of %s", wait)
		}
		if got := r.Backoff(failures, lowest); got != r.MinBackoff {
			t.Fatalf("the shortest wait is %s", got)
		}
		if failures < math.MaxInt && r.Backoff(failures+1, highest) < r.Backoff(failures, highest) {
			t.Fatal("the ceiling shrinks with one more failure")
		}
		if got := r.Backoff(64, highest); got < r.MaxBackoff-time.Duration(float64(longest)*1e-15+1) {
			t.Fatalf("after many failures the ceiling is %s", got)
		}
	})
}

func TestBackoffWithOneDuration(t *testing.T) {
	t.Parallel()
	r := policy.Retry{MinBackoff: time.Second, MaxBackoff: time.Second}
	for failures := range 70 {
		if got := r.Backoff(failures, highest); got != time.Second {
			t.Fatalf("after %d failures: %s", failures, got)
		}
	}
}
