package notification_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/notification"
)

// maxWait is the longest wait that a policy allows.
const maxWait = 90 * 24 * time.Hour

// The extremes of a generator of uniform numbers.
func lowest() float64  { return 0 }
func highest() float64 { return math.Nextafter(1, 0) }

func TestBackoffDoublesUpToTheMaximum(t *testing.T) {
	t.Parallel()
	r := notification.Retry{MaxAttempts: 8, MinBackoff: time.Second, MaxBackoff: 10 * time.Second}
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
		shortest := rapid.Int64Range(1, int64(maxWait)).Draw(t, "min")
		longest := rapid.Int64Range(shortest, int64(maxWait)).Draw(t, "max")
		r := notification.Retry{MinBackoff: time.Duration(shortest), MaxBackoff: time.Duration(longest)}
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
	r := notification.Retry{MinBackoff: time.Second, MaxBackoff: time.Second}
	for failures := range 70 {
		if got := r.Backoff(failures, highest); got != time.Second {
			t.Fatalf("after %d failures: %s", failures, got)
		}
	}
}

// With a schedule each wait is around its step, and the last step holds for what comes after it.
func TestBackoffOfASchedule(t *testing.T) {
	t.Parallel()
	r := notification.Retry{Schedule: []time.Duration{10 * time.Second, time.Minute}}
	for failures, step := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: time.Minute, 3: time.Minute,
		math.MaxInt: time.Minute,
	} {
		half := func() float64 { return 0.5 }
		shortest, middle := r.Backoff(failures, lowest), r.Backoff(failures, half)
		longest := r.Backoff(failures, highest)
		if shortest != step-step/10 || middle != step || longest > step+step/10 || longest < step+step/11 {
			t.Errorf("after %d failures %s to %s around %s, want a tenth around %s", failures, shortest, longest,
				middle, step)
		}
	}
}

// The most specific setting wins. A schedule and bounds replace each other.
func TestSettingsLieOverEachOther(t *testing.T) {
	t.Parallel()
	const s, m = time.Second, time.Minute
	retry := func(r notification.Retry) notification.DeliverySettings {
		return notification.DeliverySettings{Retry: r}
	}
	general, steps := notification.DefaultDelivery().Retry, []time.Duration{s, m, m}
	for name, c := range map[string]struct {
		below, above, want notification.Retry
	}{
		"nothing": {below: general, want: general},
		"attempts": {
			below: general, above: notification.Retry{MaxAttempts: 3},
			want: notification.Retry{MaxAttempts: 3, MinBackoff: s, MaxBackoff: 10 * m},
		},
		"bounds": {
			below: general, above: notification.Retry{MinBackoff: 2 * s, MaxBackoff: m},
			want: notification.Retry{MaxAttempts: 8, MinBackoff: 2 * s, MaxBackoff: m},
		},
		"a schedule over bounds": {
			below: general, above: notification.Retry{Schedule: steps},
			want: notification.Retry{MaxAttempts: 4, Schedule: steps},
		},
		"a schedule and attempts": {
			below: general, above: notification.Retry{Schedule: steps, MaxAttempts: 2},
			want: notification.Retry{MaxAttempts: 2, Schedule: steps},
		},
		"fewer attempts over a schedule": {
			below: notification.Retry{MaxAttempts: 4, Schedule: steps}, above: notification.Retry{MaxAttempts: 3},
			want: notification.Retry{MaxAttempts: 3, Schedule: steps},
		},
		"more attempts than a schedule has": {
			below: notification.Retry{MaxAttempts: 4, Schedule: steps}, above: notification.Retry{MaxAttempts: 9},
			want: notification.Retry{MaxAttempts: 9, Schedule: steps}, // for bounds that may lie nearer
		},
		"bounds over a schedule": {
			below: notification.Retry{MaxAttempts: 4, Schedule: steps},
			above: notification.Retry{MinBackoff: s, MaxBackoff: m},
			want:  notification.Retry{MaxAttempts: 4, MinBackoff: s, MaxBackoff: m},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(retry(c.want), retry(c.above).Over(retry(c.below))); diff != "" {
				t.Errorf("settings differ (-want +got):\n%s", diff)
			}
		})
	}
	got := notification.DeliverySettings{Timeout: m, Concurrency: 3}.Over(notification.DefaultDelivery())
	if got.Timeout != m || got.Concurrency != 3 || got.Retry.MaxAttempts != 8 {
		t.Errorf("time-out and concurrency: %+v", got)
	}
}

func TestTheLongestRetry(t *testing.T) {
	t.Parallel()
	for want, r := range map[time.Duration]notification.Retry{
		0:                  {MaxAttempts: 1, MinBackoff: time.Second, MaxBackoff: time.Hour},
		6 * time.Second:    {MaxAttempts: 3, MinBackoff: time.Second, MaxBackoff: time.Hour}, // 2 + 4
		66 * time.Second:   {MaxAttempts: 3, Schedule: []time.Duration{30 * time.Second, 30 * time.Second, time.Hour}},
		3300 * time.Second: {MaxAttempts: 4, Schedule: slices.Repeat([]time.Duration{1000 * time.Second}, 3)},
	} {
		if got := r.Longest(); got != want {
			t.Errorf("%+v takes %s, want %s", r, got, want)
		}
	}
}
