package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// documentedExample is the policy file of the documentation, with every key that there is.
const documentedExample = `version: 1
categories:
  default:                       # used when a notification names no category
    limits: [{max: 10, per: 1m}]
    min_gap: 3s
  chat:
    limits:                      # all of them hold at once, rolling
      - {max: 1, per: 3s}
      - {max: 100, per: 24h}
    max_defer: 24h
  bulletin:
    algorithm: token_bucket      # rolling (default) | fixed_window | token_bucket
    limits: [{max: 1000, per: 1h}]
  security:
    bypass: true
user_cap:                        # over all categories of one user, bypass included in the count
  limits: [{max: 60, per: 1h}]
bypass_priority: critical
retry: {max_attempts: 8, min_backoff: 1s, max_backoff: 10m}
`

func limit(n int, per time.Duration) throttle.Rule { return throttle.Rule{Max: n, Per: per} }

func gap(per time.Duration) throttle.Rule {
	return throttle.Rule{Max: 1, Per: per, Kind: throttle.KindGap}
}

func capRule(n int, per time.Duration) throttle.Rule {
	return throttle.Rule{Max: n, Per: per, Kind: throttle.KindCap}
}

func documentedPolicy() *policy.Policy {
	userCap := []throttle.Rule{capRule(60, time.Hour)}
	category := func(name string, bypass bool, a throttle.Algorithm, rules ...throttle.Rule) policy.Category {
		return policy.Category{
			Name: name, MaxDefer: 24 * time.Hour, Bypass: bypass,
			Plan: throttle.Plan{Algorithm: a, Rules: append(rules, userCap...)},
		}
	}
	return &policy.Policy{
		TimeZone: policy.DefaultTimeZone,
		Categories: map[string]policy.Category{
			"default":  category("default", false, throttle.Rolling, limit(10, time.Minute), gap(3*time.Second)),
			"chat":     category("chat", false, throttle.Rolling, limit(1, 3*time.Second), limit(100, 24*time.Hour)),
			"bulletin": category("bulletin", false, throttle.TokenBucket, limit(1000, time.Hour)),
			"security": category("security", true, throttle.Rolling),
		},
		UserCap:        userCap,
		BypassPriority: notification.PriorityCritical,
		Retry:          notification.Retry{MaxAttempts: 8, MinBackoff: time.Second, MaxBackoff: 10 * time.Minute},
	}
}

func TestParseDocumentedExample(t *testing.T) {
	t.Parallel()
	got, err := policy.Parse("policy.yaml", []byte(documentedExample))
	if err != nil {
		t.Fatal(err)
	}
	want := documentedPolicy()
	want.Text = documentedExample
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

func TestDefaultIsTheDocumentedExampleWithoutRetry(t *testing.T) {
	t.Parallel()
	got := policy.Default()
	want := documentedPolicy()
	want.Text, want.Retry = got.Text, notification.Retry{} // each channel has its own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("built-in policy differs (-want +got):\n%s", diff)
	}
	if !strings.Contains(got.Text, "version: 1") {
		t.Error("the built-in policy does not carry its text")
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	t.Parallel()
	const text = "version: 1\ncategories: {default: {}}\n"
	got, err := policy.Parse("p", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := &policy.Policy{
		TimeZone:   policy.DefaultTimeZone,
		Categories: map[string]policy.Category{"default": {Name: "default", MaxDefer: 24 * time.Hour}},
		Text:       text,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

// inDefault puts lines into the default category of a file without faults. The first is line 4.
func inDefault(lines ...string) string {
	return "version: 1\ncategories:\n  default:\n    " + strings.Join(lines, "\n    ") + "\n"
}

// atEnd puts lines at the top level of a file without faults. The first is line 3.
func atEnd(lines ...string) string {
	return "version: 1\ncategories: {default: {}}\n" + strings.Join(lines, "\n") + "\n"
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []throttle.Rule // of the default category
	}{
		"a window of one millisecond": {
			text: inDefault("limits: [{max: 1, per: 1ms}]"), want: []throttle.Rule{limit(1, time.Millisecond)},
		},
		"the longest window": {
			text: inDefault("limits: [{max: 1, per: 366d}]"), want: []throttle.Rule{limit(1, 366*24*time.Hour)},
		},
		"the largest max": {
			text: inDefault("limits: [{max: 1000000, per: 1h}]"), want: []throttle.Rule{limit(1_000_000, time.Hour)},
		},
		"days and parts of days": {
			text: inDefault("limits: [{max: 1, per: 1d12h}]", "min_gap: 0.5d"),
			want: []throttle.Rule{limit(1, 36*time.Hour), gap(12 * time.Hour)},
		},
		"a gap without limits": {
			text: inDefault("min_gap: 100ms"), want: []throttle.Rule{gap(100 * time.Millisecond)},
		},
		"a gap before limits": {
			text: inDefault("min_gap: 1s", "limits: [{max: 5, per: 1m}]"),
			want: []throttle.Rule{limit(5, time.Minute), gap(time.Second)},
		},
		"a limit implied by another": {
			text: inDefault("limits: [{max: 9, per: 1s}, {max: 1, per: 2s}]"),
			want: []throttle.Rule{limit(9, time.Second), limit(1, 2*time.Second)},
		},
		"limits over the same window": {
			text: inDefault("limits: [{max: 5, per: 60s}, {max: 1, per: 1s}, {max: 3, per: 1m}, {max: 4, per: 1m}]",
				"min_gap: 1s"),
			want: []throttle.Rule{limit(3, time.Minute), limit(1, time.Second), gap(time.Second)},
		},
		"no limits at all": {text: inDefault("limits: []"), want: nil},
		"limits that wait for a bypass": {
			text: inDefault("limits: [{max: 1, per: 1s}]", "bypass: true"),
			want: []throttle.Rule{limit(1, time.Second)},
		},
		"quoted values": {
			text: inDefault(`"limits": [{"max": 2, 'per': "1m"}]`), want: []throttle.Rule{limit(2, time.Minute)},
		},
		"aliases": {
			text: "version: 1\ncategories:\n  a: {limits: &l [&r {max: 3, per: 1s}]}\n" +
				"  default: {limits: *l}\n  b: {limits: [*r]}\n",
			want: []throttle.Rule{limit(3, time.Second)},
		},
		"JSON": {
			text: `{"version": 1, "categories": {"default": {"limits": [{"max": 1, "per": "1s"}]}}}`,
			want: []throttle.Rule{limit(1, time.Second)},
		},
		"CRLF and a byte order mark": {
			text: "\ufeff" + strings.ReplaceAll(inDefault("min_gap: 1s"), "\n", "\r\n"),
			want: []throttle.Rule{gap(time.Second)},
		},
		"document marks": {
			text: "%YAML 1.2\n---\n" + inDefault("min_gap: 1s") + "...\n", want: []throttle.Rule{gap(time.Second)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse("p", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.Categories["default"].Plan.Rules); diff != "" {
				t.Errorf("rules differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBypasses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		level    notification.Priority
		category policy.Category
		want     map[notification.Priority]bool
	}{
		"no level": {want: map[notification.Priority]bool{
			notification.PriorityCritical: false, notification.PriorityLow: false,
		}},
		"the level and the more urgent": {level: notification.PriorityHigh, want: map[notification.Priority]bool{
			notification.PriorityCritical: true, notification.PriorityHigh: true,
			notification.PriorityNormal: false, notification.PriorityLow: false,
		}},
		"the category": {category: policy.Category{Bypass: true}, want: map[notification.Priority]bool{
			notification.PriorityCritical: true, notification.PriorityLow: true,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &policy.Policy{BypassPriority: test.level}
			for priority, want := range test.want {
				if got := priority.AtLeast(p.BypassFrom(test.category)); got != want {
					t.Errorf("priority %s bypasses: %t, want %t", priority, got, want)
				}
			}
		})
	}
}
