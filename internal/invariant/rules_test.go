package invariant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// everyRule is a policy with each kind of rule and each algorithm.
const everyRule = `version: 1
bypass_priority: critical
user_cap:
  limits: [{max: 4, per: 1m}, {max: 30, per: 1h}]
categories:
  default:
    limits: [{max: 2, per: 10s}, {max: 3, per: 30s}]
  gap:
    min_gap: 3s
  window:
    algorithm: fixed_window
    limits: [{max: 1, per: 10s}]
    min_gap: 1s
  bucket:
    algorithm: token_bucket
    limits: [{max: 1, per: 10s}]
  free: {}
`

// policyTerms gives the terms of the policy's categories, as the program makes them; those of ben and cid are their own.
func policyTerms(t *testing.T) func(userID, category string) invariant.Terms {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(everyRule))
	if err != nil {
		t.Fatal(err)
	}
	own, err := policy.ParseLimits([]byte(`{"limits": [{"max": 1, "per": "20s"}], "min_gap": "5s"}`))
	if err != nil {
		t.Fatal(err)
	}
	gap, err := policy.ParseLimits([]byte(`{"min_gap": "5s"}`))
	if err != nil {
		t.Fatal(err)
	}
	return func(userID, category string) invariant.Terms {
		c, known := p.Category(category)
		if !known {
			t.Errorf("the policy does not name %s", category)
		}
		plan := c.Plan
		if rules, replaced := map[string][]throttle.Rule{"ben": own, "cid": gap}[userID]; replaced {
			plan.Dormant, plan.Rules = plan.Rules, rules
		}
		return invariant.Terms{Plan: plan, BypassFrom: int(p.BypassPriority), MaxLife: c.MaxDefer}
	}
}

// planted is an admission of a test: who, in which category, so long after the first.
type planted struct {
	user, category string
	after          time.Duration
	priority       notification.Priority
}

// A violation of each kind of rule is found, in plans that come out of the policy's parser; a microsecond more and it is
// none.
func TestEachKindOfRule(t *testing.T) {
	t.Parallel()
	const s, us = time.Second, time.Microsecond
	for name, c := range map[string]struct {
		before []planted
		early  planted // a microsecond before it may go
		rule   string
	}{
		"limit":        {[]planted{{"ada", "default", 0, 3}, {"ada", "default", s, 3}}, planted{"ada", "default", 10*s - us, 3}, "limit 2/10s"},
		"second limit": {[]planted{{"ada", "default", 0, 3}, {"ada", "default", s, 3}, {"ada", "default", 15 * s, 3}}, planted{"ada", "default", 30*s - us, 3}, "limit 3/30s"},
		"gap":          {[]planted{{"ada", "gap", 0, 3}}, planted{"ada", "gap", 3*s - us, 3}, "min_gap 3s"},
		"cap": {
			[]planted{{"ada", "free", 0, 3}, {"ada", "gap", s, 3}, {"ada", "default", 2 * s, 3}, {"ada", "bucket", 3 * s, 3}},
			planted{"ada", "free", 60*s - us, 3},
			"user_cap 4/1m",
		},
		"cap in a window's plan": {
			[]planted{{"ada", "free", 0, 3}, {"ada", "free", s, 3}, {"ada", "free", 2 * s, 3}, {"ada", "free", 3 * s, 3}},
			planted{"ada", "window", 60*s - us, 3},
			"user_cap 4/1m",
		},
		"cap after bypasses": {
			[]planted{{"ada", "free", 0, 1}, {"ada", "gap", 0, 1}, {"ada", "default", 0, 1}, {"ada", "bucket", 0, 1}},
			planted{"ada", "free", 60*s - us, 3},
			"user_cap 4/1m",
		},
		"limit after a bypass":    {[]planted{{"ada", "default", 0, 1}, {"ada", "default", s, 3}}, planted{"ada", "default", 10*s - us, 3}, "limit 2/10s"},
		"fixed window":            {[]planted{{"ada", "window", 0, 3}, {"ada", "window", 5 * s, 3}}, planted{"ada", "window", 10*s - us, 3}, "limit 1/10s"},
		"gap beside fixed window": {[]planted{{"ada", "window", 0, 3}}, planted{"ada", "window", s - us, 3}, "min_gap 1s"},
		"token bucket":            {[]planted{{"ada", "bucket", 0, 3}, {"ada", "bucket", 5 * s, 3}}, planted{"ada", "bucket", 10*s - us, 3}, "limit 1/10s"},
		"own limit":               {[]planted{{"ben", "default", 0, 3}}, planted{"ben", "default", 20*s - us, 3}, "limit 1/20s"},
		"own gap":                 {[]planted{{"cid", "default", 0, 3}}, planted{"cid", "default", 5*s - us, 3}, "min_gap 5s"},
		"cap beside own limits": {
			[]planted{{"ben", "free", 0, 3}, {"ben", "gap", 0, 3}, {"ben", "default", 0, 3}, {"ben", "bucket", 0, 3}},
			planted{"ben", "window", 60*s - us, 3},
			"user_cap 4/1m",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			terms := policyTerms(t)
			for _, late := range []time.Duration{0, us} {
				r := &store{}
				start := throttle.MicrosOf(time.Now().Add(time.Second))
				last := c.early
				last.after += late
				for i, a := range append(append([]planted{}, c.before...), last) {
					r.admissions = append(r.admissions, invariant.Admission{
						ID: string(rune('a' + i)), UserID: a.user, Category: a.category, At: start.Add(a.after), Priority: int(a.priority),
					})
				}
				result, log := round(t, r, func(cfg *invariant.Config) { cfg.Terms = terms }, invariant.Terms{})
				switch {
				case late > 0 && result.Violations != 0:
					t.Errorf("what may go counts as %d violations: %s", result.Violations, log)
				case late == 0 && (result.Violations != 1 || !strings.Contains(log, c.rule)):
					t.Errorf("%d violations are found, want one of %s: %s", result.Violations, c.rule, log)
				}
			}
		})
	}
}

// Bypasses fill a fixed window, but not the next one: who goes then is no violation.
func TestBypassesBesideAFixedWindow(t *testing.T) {
	t.Parallel()
	terms := policyTerms(t)
	r := &store{}
	start := time.Now().Add(time.Minute)
	for i, after := range []time.Duration{0, 9 * time.Second, 9500 * time.Millisecond, 10500 * time.Millisecond} {
		priority := 1
		if i == 3 {
			priority = 3
		}
		r.admissions = append(r.admissions, invariant.Admission{
			ID: string(rune('a' + i)), UserID: "ada", Category: "window", At: throttle.MicrosOf(start.Add(after)), Priority: priority,
		})
	}
	if result, log := round(t, r, func(cfg *invariant.Config) { cfg.Terms = terms }, invariant.Terms{}); result.Violations != 0 {
		t.Errorf("%d violations: %s", result.Violations, log)
	}
}
