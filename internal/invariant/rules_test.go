package invariant_test

import (
	"slices"
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
caps:
  - name: marketing
    categories: [promo, offers]
    channels: [fcm, apns]
    limits: [{max: 2, per: 1m, reserve: {high: 1}}]
  - {name: all, categories: [promo, offers], limits: [{max: 3, per: 1m}]}
categories:
  promo: {}
  offers: {}
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
  kept:
    limits: [{max: 3, per: 10s, reserve: {high: 1}}]
`

// policyLimits returns the limits of the policy's categories, as the program makes them. Ben and cid have limits of
// their own.
func policyLimits(t *testing.T) func(userID, category string) invariant.Limits {
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
	return func(userID, category string) invariant.Limits {
		c, known := p.Category(category)
		if !known {
			t.Errorf("the policy does not name %s", category)
		}
		plan := c.Plan
		if rules, replaced := map[string][]throttle.Rule{"ben": own, "cid": gap}[userID]; replaced {
			plan = plan.WithOwnLimits(rules)
		}
		return invariant.Limits{Plan: plan, BypassFrom: p.BypassFrom(c)}
	}
}

// planted is an admission of a test, so long after the first one.
type planted struct {
	user, category string
	after          time.Duration
	bypass         bool
	high           bool // its priority is high
	channel        string
}

// admission is what the store says of it.
func (p planted) admission(id string, start throttle.Micros) invariant.Admission {
	priority := notification.PriorityNormal
	if p.bypass {
		priority = notification.PriorityCritical
	}
	if p.high {
		priority = notification.PriorityHigh
	}
	return invariant.Admission{
		ID: id, UserID: p.user, Category: p.category, At: start.Add(p.after), Priority: priority,
		Channel: p.channel,
	}
}

// ruleCase is one kind of rule: the admissions that fill its window, and the earliest that it allows after them.
type ruleCase struct {
	name  string
	rule  string
	fill  []planted
	allow planted
}

// ruleCases has every kind of rule under every algorithm.
func ruleCases() []ruleCase {
	const s = time.Second
	of := func(user, category string, after ...time.Duration) (all []planted) {
		for _, d := range after {
			all = append(all, planted{user: user, category: category, after: d})
		}
		return all
	}
	everywhere := func(user string, bypass bool) (all []planted) {
		for _, category := range []string{"free", "gap", "default", "bucket"} {
			all = append(all, planted{user: user, category: category, bypass: bypass})
		}
		return all
	}
	bypassed := append([]planted{{user: "ada", category: "default", bypass: true}}, of("ada", "default", s)...)
	urgent := append(of("ada", "kept", 0, s), planted{user: "ada", category: "kept", after: 2 * s, high: true})
	return []ruleCase{
		{
			name: "limit", rule: "limit 2/10s", fill: of("ada", "default", 0, s),
			allow: planted{user: "ada", category: "default", after: 10 * s},
		},
		{
			name: "second limit", rule: "limit 3/30s", fill: of("ada", "default", 0, s, 15*s),
			allow: planted{user: "ada", category: "default", after: 30 * s},
		},
		{
			name: "limit after a bypass", rule: "limit 2/10s", fill: bypassed,
			allow: planted{user: "ada", category: "default", after: 10 * s},
		},
		{
			name: "what is kept for the urgent", rule: "limit 3/10s", fill: of("ada", "kept", 0, s),
			allow: planted{user: "ada", category: "kept", after: 10 * s},
		},
		{
			name: "the urgent beyond what is kept", rule: "limit 3/10s", fill: urgent,
			allow: planted{user: "ada", category: "kept", after: 10 * s, high: true},
		},
		{
			name: "gap", rule: "min_gap 3s", fill: of("ada", "gap", 0),
			allow: planted{user: "ada", category: "gap", after: 3 * s},
		},
		{
			name: "fixed window", rule: "limit 1/10s", fill: of("ada", "window", 0, 5*s),
			allow: planted{user: "ada", category: "window", after: 10 * s},
		},
		{
			name: "gap beside a fixed window", rule: "min_gap 1s", fill: of("ada", "window", 0),
			allow: planted{user: "ada", category: "window", after: s},
		},
		{
			name: "token bucket", rule: "limit 1/10s", fill: of("ada", "bucket", 0, 5*s),
			allow: planted{user: "ada", category: "bucket", after: 10 * s},
		},
		{
			name: "cap", rule: "user_cap 4/1m", fill: everywhere("ada", false),
			allow: planted{user: "ada", category: "free", after: 60 * s},
		},
		{
			name: "cap of one category alone", rule: "user_cap 4/1m", fill: of("ada", "free", 0, s, 2*s, 3*s),
			allow: planted{user: "ada", category: "free", after: 60 * s},
		},
		{
			name: "cap beside a fixed window", rule: "user_cap 4/1m", fill: of("ada", "free", 0, s, 2*s, 3*s),
			allow: planted{user: "ada", category: "window", after: 60 * s},
		},
		{
			name: "cap beside a token bucket", rule: "user_cap 4/1m", fill: of("ada", "free", 0, s, 2*s, 3*s),
			allow: planted{user: "ada", category: "bucket", after: 60 * s},
		},
		{
			name: "cap after bypasses", rule: "user_cap 4/1m", fill: everywhere("ada", true),
			allow: planted{user: "ada", category: "free", after: 60 * s},
		},
		{
			name: "own limit", rule: "limit 1/20s", fill: of("ben", "default", 0),
			allow: planted{user: "ben", category: "default", after: 20 * s},
		},
		{
			name: "own gap", rule: "min_gap 5s", fill: of("cid", "default", 0),
			allow: planted{user: "cid", category: "default", after: 5 * s},
		},
		{
			name: "own limit beside a token bucket", rule: "limit 1/20s", fill: of("ben", "bucket", 0, 5*s),
			allow: planted{user: "ben", category: "bucket", after: 20 * s},
		},
		{
			name: "named cap", rule: "cap:marketing", fill: []planted{
				{user: "ada", category: "promo", channel: "fcm"},
				{user: "ada", category: "offers", channel: "log", after: s},
			},
			allow: planted{user: "ada", category: "offers", channel: "apns:shop", after: 60 * s},
		},
		{
			name: "named cap of all channels", rule: "cap:all", fill: []planted{
				{user: "ada", category: "promo", channel: "log"},
				{user: "ada", category: "offers", channel: "log"},
				{user: "ada", category: "promo", channel: "fcm", bypass: true},
			},
			allow: planted{user: "ada", category: "offers", channel: "log", after: 60 * s},
		},
		{
			name: "what a named cap keeps for the urgent", rule: "cap:marketing", fill: []planted{
				{user: "ada", category: "promo", channel: "fcm"},
				{user: "ada", category: "offers", channel: "fcm", after: s, high: true},
			},
			allow: planted{user: "ada", category: "promo", channel: "apns", after: 60 * s, high: true},
		},
		{
			name: "cap beside own limits", rule: "user_cap 4/1m", fill: everywhere("ben", false),
			allow: planted{user: "ben", category: "window", after: 60 * s},
		},
	}
}

// The checker finds a violation of each kind of rule, in plans that come from the policy's parser. A microsecond later
// there is none.
func TestEachKindOfRule(t *testing.T) {
	t.Parallel()
	for _, c := range ruleCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			early := c.allow
			early.after -= time.Microsecond
			if violations, log := c.check(t, early); violations != 1 || !strings.Contains(log, c.rule) {
				t.Errorf("finds %d violations, want one of %s: %s", violations, c.rule, log)
			}
			if violations, log := c.check(t, c.allow); violations != 0 {
				t.Errorf("takes what may go for %d violations: %s", violations, log)
			}
		})
	}
}

// check has the checker go through the case's admissions and one more.
func (c ruleCase) check(t *testing.T, last planted) (violations int64, log string) {
	t.Helper()
	admitted := &store{}
	start := throttle.MicrosOf(began.Add(time.Second))
	for i, p := range append(slices.Clone(c.fill), last) {
		admitted.admissions = append(admitted.admissions, p.admission(string(rune('a'+i)), start))
	}
	limits := policyLimits(t)
	result, log := round(t, admitted, func(cfg *invariant.Config) { cfg.Limits = limits }, invariant.Limits{})
	return result.Violations, log
}

// Bypasses fill a fixed window, but not the next one: an admission in the next window is no violation.
func TestBypassesBesideAFixedWindow(t *testing.T) {
	t.Parallel()
	limits := policyLimits(t)
	s := &store{}
	start := began.Add(time.Minute)
	for i, after := range []time.Duration{0, 9 * time.Second, 9500 * time.Millisecond, 10500 * time.Millisecond} {
		priority := notification.PriorityCritical
		if i == 3 {
			priority = notification.PriorityNormal
		}
		s.admissions = append(s.admissions, invariant.Admission{
			ID: string(rune('a' + i)), UserID: "ada", Category: "window", At: throttle.MicrosOf(start.Add(after)),
			Priority: priority,
		})
	}
	if result, log := round(t, s, func(cfg *invariant.Config) { cfg.Limits = limits },
		invariant.Limits{}); result.Violations != 0 {
		t.Errorf("%d violations: %s", result.Violations, log)
	}
}

// Of two at one moment the less urgent may have been the first, whatever their ids say: a reserve leaves it less.
func TestOneMomentHasNoOrder(t *testing.T) {
	t.Parallel()
	c := ruleCase{fill: []planted{
		{user: "ada", category: "kept"}, {user: "ada", category: "kept", after: time.Second, high: true},
	}}
	last := planted{user: "ada", category: "kept", after: time.Second}
	if violations, log := c.check(t, last); violations != 0 {
		t.Errorf("%d violations: %s", violations, log)
	}
	last.after += time.Microsecond
	if violations, _ := c.check(t, last); violations != 1 {
		t.Errorf("%d violations a microsecond later, want 1", violations)
	}
}
