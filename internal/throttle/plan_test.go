package throttle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/throttle"
)

var (
	twoPerMinute = throttle.Rule{Max: 2, Per: time.Minute}
	aSecondApart = throttle.Rule{Max: 1, Per: time.Second, Kind: throttle.KindGap}
	tenPerHour   = throttle.Rule{Max: 10, Per: time.Hour, Kind: throttle.KindCap}
)

func TestValidatePlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan throttle.Plan
		want string // part of the error; empty: none
	}{
		"nothing":           {plan: throttle.Plan{}},
		"one of each kind":  {plan: throttle.Plan{Rules: []throttle.Rule{twoPerMinute, aSecondApart, tenPerHour}}},
		"only a cap":        {plan: throttle.Plan{Rules: []throttle.Rule{tenPerHour}}},
		"unknown algorithm": {plan: throttle.Plan{Algorithm: 99}, want: "algorithm 99 is unknown"},
		"no admissions": {
			plan: throttle.Plan{Rules: []throttle.Rule{{Per: time.Hour}}}, want: "rule 1 (limit 0/1h): max must be",
		},
		"limit after a cap": {
			plan: throttle.Plan{Rules: []throttle.Rule{tenPerHour, twoPerMinute}},
			want: "rule 2 (limit 2/1m) must stand before the caps",
		},
		"gap after a cap": {
			plan: throttle.Plan{Rules: []throttle.Rule{tenPerHour, aSecondApart}},
			want: "rule 2 (min_gap 1s) must stand before the caps",
		},
		"same window twice": {
			plan: throttle.Plan{Rules: []throttle.Rule{twoPerMinute, {Max: 3, Per: time.Minute}}},
			want: "rules 1 and 2 (limit 2/1m, limit 3/1m) have the same window",
		},
		"two gaps": {
			plan: throttle.Plan{Rules: []throttle.Rule{
				aSecondApart, {Max: 1, Per: time.Minute, Kind: throttle.KindGap},
			}},
			want: "are both a gap",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.plan.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("gives %v, want %q", err, c.want)
			}
		})
	}
}

// A user's own limits replace the category's and leave the caps; the category's are counted on.
func TestWithOwnLimits(t *testing.T) {
	t.Parallel()
	policy := throttle.Plan{
		Algorithm: throttle.TokenBucket, Rules: []throttle.Rule{twoPerMinute, aSecondApart, tenPerHour},
	}
	onePerHour := throttle.Rule{Max: 1, Per: time.Hour}
	onePerDay := throttle.Rule{Max: 1, Per: throttle.Day.Longest(), Period: throttle.Day}
	for name, c := range map[string]struct {
		own, want []throttle.Rule
		algorithm throttle.Algorithm
	}{
		"a limit": {
			own: []throttle.Rule{onePerHour}, want: []throttle.Rule{onePerHour, tenPerHour},
			algorithm: throttle.TokenBucket,
		},
		"no limit": {own: nil, want: []throttle.Rule{tenPerHour}, algorithm: throttle.TokenBucket},
		"a limit of the calendar": {
			own: []throttle.Rule{onePerDay}, want: []throttle.Rule{onePerDay, tenPerHour}, algorithm: throttle.Rolling,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := throttle.Plan{
				Algorithm: c.algorithm, Rules: c.want, Dormant: []throttle.Rule{twoPerMinute, aSecondApart},
			}
			if diff := cmp.Diff(want, policy.WithOwnLimits(c.own)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
