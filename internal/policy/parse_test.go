package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// contractExample is the policy file as users know it, with every key there is.
const contractExample = `version: 1
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

func contractPolicy() *policy.Policy {
	userCap := []throttle.Rule{capRule(60, time.Hour)}
	category := func(name string, bypass bool, a throttle.Algorithm, rules ...throttle.Rule) policy.Category {
		return policy.Category{
			Name: name, MaxDefer: 24 * time.Hour, Bypass: bypass,
			Plan: throttle.Plan{Algorithm: a, Rules: append(rules, userCap...)},
		}
	}
	return &policy.Policy{
		Categories: map[string]policy.Category{
			"default":  category("default", false, throttle.Rolling, limit(10, time.Minute), gap(3*time.Second)),
			"chat":     category("chat", false, throttle.Rolling, limit(1, 3*time.Second), limit(100, 24*time.Hour)),
			"bulletin": category("bulletin", false, throttle.TokenBucket, limit(1000, time.Hour)),
			"security": category("security", true, throttle.Rolling),
		},
		UserCap:        userCap,
		BypassPriority: notification.PriorityCritical,
		Retry:          policy.Retry{MaxAttempts: 8, MinBackoff: time.Second, MaxBackoff: 10 * time.Minute},
	}
}

func TestParseContractExample(t *testing.T) {
	t.Parallel()
	got, err := policy.Parse("policy.yaml", []byte(contractExample))
	if err != nil {
		t.Fatal(err)
	}
	want := contractPolicy()
	want.Text = contractExample
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

func TestDefaultIsTheContractExample(t *testing.T) {
	t.Parallel()
	got := policy.Default()
	want := contractPolicy()
	want.Text = got.Text
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
		Categories: map[string]policy.Category{"default": {Name: "default", MaxDefer: 24 * time.Hour}},
		Retry:      policy.Retry{MaxAttempts: 8, MinBackoff: time.Second, MaxBackoff: 10 * time.Minute},
		Text:       text,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy differs (-want +got):\n%s", diff)
	}
}

// inDefault puts lines into the default category of an otherwise right file; the first is line 4.
func inDefault(lines ...string) string {
	return "version: 1\ncategories:\n  default:\n    " + strings.Join(lines, "\n    ") + "\n"
}

// atEnd puts lines at the top level of an otherwise right file; the first is line 3.
func atEnd(lines ...string) string {
	return "version: 1\ncategories: {default: {}}\n" + strings.Join(lines, "\n") + "\n"
}

func TestParseAccepts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want []throttle.Rule // of the default category
	}{
		"a window of one millisecond":   {text: inDefault("limits: [{max: 1, per: 1ms}]"), want: []throttle.Rule{limit(1, time.Millisecond)}},
		"the longest window":            {text: inDefault("limits: [{max: 1, per: 366d}]"), want: []throttle.Rule{limit(1, 366*24*time.Hour)}},
		"the largest max":               {text: inDefault("limits: [{max: 1000000, per: 1h}]"), want: []throttle.Rule{limit(1_000_000, time.Hour)}},
		"days and parts of days":        {text: inDefault("limits: [{max: 1, per: 1d12h}]", "min_gap: 0.5d"), want: []throttle.Rule{limit(1, 36*time.Hour), gap(12 * time.Hour)}},
		"a gap without limits":          {text: inDefault("min_gap: 100ms"), want: []throttle.Rule{gap(100 * time.Millisecond)}},
		"a gap before limits":           {text: inDefault("min_gap: 1s", "limits: [{max: 5, per: 1m}]"), want: []throttle.Rule{limit(5, time.Minute), gap(time.Second)}},
		"a limit implied by another":    {text: inDefault("limits: [{max: 9, per: 1s}, {max: 1, per: 2s}]"), want: []throttle.Rule{limit(9, time.Second), limit(1, 2*time.Second)}},
		"limits over the same window":   {text: inDefault("limits: [{max: 5, per: 60s}, {max: 1, per: 1s}, {max: 3, per: 1m}, {max: 4, per: 1m}]", "min_gap: 1s"), want: []throttle.Rule{limit(3, time.Minute), limit(1, time.Second), gap(time.Second)}},
		"no limits at all":              {text: inDefault("limits: []"), want: nil},
		"limits that wait for a bypass": {text: inDefault("limits: [{max: 1, per: 1s}]", "bypass: true"), want: []throttle.Rule{limit(1, time.Second)}},
		"quoted values":                 {text: inDefault(`"limits": [{"max": 2, 'per': "1m"}]`), want: []throttle.Rule{limit(2, time.Minute)}},
		"aliases":                       {text: "version: 1\ncategories:\n  a: {limits: &l [&r {max: 3, per: 1s}]}\n  default: {limits: *l}\n  b: {limits: [*r]}\n", want: []throttle.Rule{limit(3, time.Second)}},
		"JSON":                          {text: `{"version": 1, "categories": {"default": {"limits": [{"max": 1, "per": "1s"}]}}}`, want: []throttle.Rule{limit(1, time.Second)}},
		"CRLF and a byte order mark":    {text: "\ufeff" + strings.ReplaceAll(inDefault("min_gap: 1s"), "\n", "\r\n"), want: []throttle.Rule{gap(time.Second)}},
		"document marks":                {text: "%YAML 1.2\n---\n" + inDefault("min_gap: 1s") + "...\n", want: []throttle.Rule{gap(time.Second)}},
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

func TestParseReadsTheOtherSettings(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(`version: 1
categories:
  default: {max_defer: 90d, algorithm: fixed_window}
  Team-1_a.b: {bypass: false}
  7: {bypass: true}
bypass_priority: high
retry: {max_attempts: 1, min_backoff: 1ms, max_backoff: 1ms}
`))
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := p.Category("default"); !ok || c.MaxDefer != 90*24*time.Hour || c.Plan.Algorithm != throttle.FixedWindow {
		t.Errorf("default is %+v, %t", c, ok)
	}
	if c, ok := p.Category("Team-1_a.b"); !ok || c.Bypass || c.Name != "Team-1_a.b" {
		t.Errorf("Team-1_a.b is %+v, %t", c, ok)
	}
	if c, ok := p.Category("7"); !ok || !c.Bypass {
		t.Errorf("7 is %+v, %t", c, ok)
	}
	if _, ok := p.Category("chat"); ok {
		t.Error("a category that the file does not name is known")
	}
	if p.BypassPriority != notification.PriorityHigh {
		t.Errorf("bypass_priority is %s", p.BypassPriority)
	}
	if want := (policy.Retry{MaxAttempts: 1, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond}); p.Retry != want {
		t.Errorf("retry is %+v, want %+v", p.Retry, want)
	}
}

func TestParseReadsNoBypassPriority(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(atEnd(`bypass_priority: ""`)))
	if err != nil {
		t.Fatal(err)
	}
	if p.BypassPriority != 0 || p.BypassFrom(policy.Category{}) != 0 {
		t.Errorf("bypass_priority is %s", p.BypassPriority)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const durations = "must be a duration such as 500ms, 3s, 1m, 24h or 1d"
	const keys = "known here: algorithm, limits, min_gap, max_defer, bypass"
	tests := map[string]struct{ text, want string }{
		"nothing":                {text: "", want: "1:1: the file is empty"},
		"a comment alone":        {text: "# later\n", want: "1:1: the file is empty"},
		"a list":                 {text: "- version: 1\n", want: "1:1: must be a mapping of keys to values"},
		"broken YAML":            {text: "version: 1\ncategories: [\n", want: "2:13: not readable as YAML: sequence end token ']' not found"},
		"bytes that are no text": {text: "version: 1\n  \xff", want: "2:3: the file is not valid UTF-8"},
		"a second document":      {text: atEnd("---", "version: 1"), want: "4:1: a policy is one YAML document, and a second begins here"},
		"too many bytes": {text: strings.Repeat("# filler\n", 1<<17), want: fmt.Sprintf(
			"1:1: the file has %d bytes, more than the 1048576 that a policy may have", 9<<17)},
		"deep nesting":        {text: "a:\n  " + strings.Repeat("[", 100), want: "2:1: nested deeper, or on a longer line, than any policy is"},
		"deep lists":          {text: "a:\n" + strings.Repeat("- ", 5000), want: "2:1: nested deeper, or on a longer line, than any policy is"},
		"deep over lines":     {text: strings.Repeat("[\n", 100), want: "65:1: nested deeper, or on a longer line, than any policy is"},
		"no version":          {text: "categories: {default: {}}\n", want: "1:1: version: is missing; begin the file with version: 1"},
		"another version":     {text: "version: 2\ncategories: {default: {}}\n", want: "1:10: version: must be 1, the only version there is"},
		"no categories":       {text: "version: 1\n", want: "1:1: categories: is missing; a policy needs at least the category default"},
		"no default":          {text: "version: 1\ncategories: {chat: {}}\n", want: "2:1: categories.default: is missing; it is for notifications that name no category"},
		"categories a list":   {text: "version: 1\ncategories: [default]\n", want: "2:13: categories: must be a mapping of keys to values"},
		"unknown key":         {text: atEnd("limits: []"), want: "3:1: limits: unknown key; known here: version, categories, user_cap, bypass_priority, retry"},
		"key twice":           {text: atEnd("", "version: 1"), want: "4:1: version: is already set on line 1"},
		"key no name":         {text: atEnd("~: 1"), want: "3:1: a key must be a plain name"},
		"merge key":           {text: "version: 1\ncategories:\n  a: &a {}\n  default:\n    <<: *a\n", want: "5:5: categories.default: a key must be a plain name"},
		"unknown alias":       {text: inDefault("limits: *l"), want: `4:13: categories.default.limits: no anchor is named "l"`},
		"alias of itself":     {text: "version: 1\ncategories: {default: &a {limits: [*a]}}\n", want: "2:26: categories.default.limits[0]: needs max, how many notifications may go out\n2:26: categories.default.limits[0]: needs per, the length of the window\n2:27: categories.default.limits[0].limits: unknown key; known here: max, per"},
		"anchor twice":        {text: "version: 1\ncategories: {default: &a {}, chat: &a {}}\n", want: `2:36: the anchor "a" is already in use`},
		"category twice":      {text: "version: 1\ncategories:\n  default: {}\n  chat: {}\n  default: {}\n", want: "5:3: categories.default: is already set on line 3"},
		"category unnamed":    {text: "version: 1\ncategories: {default: {}, '': {}}\n", want: `2:27: categories."": a category's name must be 1 to 64 of A-Z a-z 0-9 . _ -`},
		"colon in category":   {text: "version: 1\ncategories: {default: {}, 'a:b': {}}\n", want: `2:27: categories."a:b": a category's name must be 1 to 64 of A-Z a-z 0-9 . _ -`},
		"long category":       {text: "version: 1\ncategories: {default: {}, " + strings.Repeat("a", 65) + ": {}}\n", want: `2:27: categories."` + strings.Repeat("a", 65) + `": a category's name must be 1 to 64 of A-Z a-z 0-9 . _ -`},
		"category without {}": {text: "version: 1\ncategories:\n  default:\n  chat: {}\n", want: "3:3: categories.default: has no settings; write {} for a category without limits"},
		"category a number":   {text: "version: 1\ncategories: {default: 3}\n", want: "2:23: categories.default: must be a mapping of keys to values"},
		"unknown in category": {text: inDefault("limit: []"), want: "4:5: categories.default.limit: unknown key; " + keys},
		"unknown algorithm":   {text: inDefault("algorithm: leaky"), want: "4:16: categories.default.algorithm: must be rolling, fixed_window or token_bucket"},
		"algorithm a list":    {text: inDefault("algorithm: [rolling]"), want: "4:16: categories.default.algorithm: must be rolling, fixed_window or token_bucket"},
		"limits a mapping":    {text: inDefault("limits: {max: 1, per: 1s}"), want: "4:13: categories.default.limits: must be a list of limits such as [{max: 10, per: 1m}]"},
		"limits empty":        {text: inDefault("limits:"), want: "4:5: categories.default.limits: must be a list of limits such as [{max: 10, per: 1m}]"},
		"too many limits": {
			text: inDefault("limits: [" + strings.Repeat("{max: 1, per: 1s}, ", 33) + "]"),
			want: "4:13: categories.default.limits: has 33 limits, more than the 32 that one list may have",
		},
		"limit a number":        {text: inDefault("limits: [10]"), want: "4:14: categories.default.limits[0]: must be a mapping of keys to values"},
		"unknown in limit":      {text: inDefault("limits: [{max: 1, per: 1s, burst: 2}]"), want: "4:32: categories.default.limits[0].burst: unknown key; known here: max, per"},
		"no max":                {text: inDefault("limits:", "  - per: 1s"), want: "5:9: categories.default.limits[0]: needs max, how many notifications may go out"},
		"no per":                {text: inDefault("limits: [{max: 1}]"), want: "4:14: categories.default.limits[0]: needs per, the length of the window"},
		"max 0":                 {text: inDefault("limits:", "  - {max: 1, per: 1s}", "  - {max: 0, per: 1s}"), want: "6:15: categories.default.limits[1].max: must be between 1 and 1000000, is 0"},
		"max negative":          {text: inDefault("limits: [{max: -1, per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be between 1 and 1000000, is -1"},
		"max too large":         {text: inDefault("limits: [{max: 1000001, per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be between 1 and 1000000, is 1000001"},
		"max beyond integers":   {text: inDefault("limits: [{max: 99999999999999999999, per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be a whole number between 1 and 1000000"},
		"max a fraction":        {text: inDefault("limits: [{max: 1.5, per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be a whole number between 1 and 1000000"},
		"max a text":            {text: inDefault("limits: [{max: '5', per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be a whole number between 1 and 1000000"},
		"max octal":             {text: inDefault("limits: [{max: 010, per: 1s}]"), want: "4:20: categories.default.limits[0].max: must be a whole number between 1 and 1000000, in plain decimal digits"},
		"window of 0":           {text: inDefault("limits: [{max: 1, per: 0s}]"), want: "4:28: categories.default.limits[0].per: must be between 1ms and 366d, is 0s"},
		"window of bare 0":      {text: inDefault("limits: [{max: 1, per: 0}]"), want: "4:28: categories.default.limits[0].per: must be between 1ms and 366d, is 0"},
		"window negative":       {text: inDefault("limits: [{max: 1, per: -1m}]"), want: "4:28: categories.default.limits[0].per: must be between 1ms and 366d, is -1m"},
		"window too short":      {text: inDefault("limits: [{max: 1, per: 999us}]"), want: "4:28: categories.default.limits[0].per: must be between 1ms and 366d, is 999us"},
		"window too long":       {text: inDefault("limits: [{max: 1, per: 367d}]"), want: "4:28: categories.default.limits[0].per: must be between 1ms and 366d, is 367d"},
		"window too fine":       {text: inDefault("limits: [{max: 1, per: 1000001ns}]"), want: "4:28: categories.default.limits[0].per: must be whole microseconds, is 1.000001ms"},
		"window without a unit": {text: inDefault("limits: [{max: 1, per: 60}]"), want: "4:28: categories.default.limits[0].per: " + durations + `, is "60"`},
		"window in words":       {text: inDefault("limits: [{max: 1, per: 1 minute}]"), want: "4:28: categories.default.limits[0].per: " + durations + `, is "1 minute"`},
		"window a list":         {text: inDefault("limits: [{max: 1, per: [1s]}]"), want: "4:28: categories.default.limits[0].per: " + durations},
		"gap of 0":              {text: inDefault("min_gap: 0s"), want: "4:14: categories.default.min_gap: must be between 1ms and 366d, is 0s"},
		"gap too short":         {text: inDefault("min_gap: 0.5ms"), want: "4:14: categories.default.min_gap: must be between 1ms and 366d, is 0.5ms"},
		"max_defer of 0":        {text: inDefault("max_defer: 0s"), want: "4:16: categories.default.max_defer: must be more than 0 and at most 90d, is 0s"},
		"max_defer too long":    {text: inDefault("max_defer: 91d"), want: "4:16: categories.default.max_defer: must be more than 0 and at most 90d, is 91d"},
		"bypass a word":         {text: inDefault("bypass: yes"), want: "4:13: categories.default.bypass: must be true or false"},
		"cap without limits":    {text: atEnd("user_cap: {}"), want: "3:1: user_cap: needs limits, a list such as [{max: 60, per: 1h}]"},
		"cap with a gap":        {text: atEnd("user_cap: {limits: [], min_gap: 1s}"), want: "3:24: user_cap.min_gap: unknown key; known here: limits"},
		"cap a list":            {text: atEnd("user_cap: [{max: 1, per: 1s}]"), want: "3:11: user_cap: must be a mapping of keys to values"},
		"cap max 0":             {text: atEnd("user_cap:", "  limits:", "    - max: 0", "      per: 1s"), want: "5:12: user_cap.limits[0].max: must be between 1 and 1000000, is 0"},
		"unknown priority":      {text: atEnd("bypass_priority: urgent"), want: `3:18: bypass_priority: must be critical, high, normal, low or "" for none`},
		"priority empty":        {text: atEnd("bypass_priority:"), want: `3:1: bypass_priority: must be critical, high, normal, low or "" for none`},
		"unknown in retry":      {text: atEnd("retry: {attempts: 3}"), want: "3:9: retry.attempts: unknown key; known here: max_attempts, min_backoff, max_backoff"},
		"no attempts":           {text: atEnd("retry: {max_attempts: 0}"), want: "3:23: retry.max_attempts: must be between 1 and 100, is 0"},
		"too many attempts":     {text: atEnd("retry: {max_attempts: 101}"), want: "3:23: retry.max_attempts: must be between 1 and 100, is 101"},
		"back-off of 0":         {text: atEnd("retry: {min_backoff: 0s}"), want: "3:22: retry.min_backoff: must be more than 0 and at most 90d, is 0s"},
		"back-off too long":     {text: atEnd("retry: {max_backoff: 91d}"), want: "3:22: retry.max_backoff: must be more than 0 and at most 90d, is 91d"},
		"back-offs crossed":     {text: atEnd("retry: {min_backoff: 2s, max_backoff: 1s}"), want: "3:22: retry: min_backoff (2s) must not be longer than max_backoff (1s)"},
		"below the default":     {text: atEnd("retry: {max_backoff: 500ms}"), want: "3:22: retry: min_backoff (1s) must not be longer than max_backoff (500ms)"},
		"retry a number":        {text: atEnd("retry: 8"), want: "3:8: retry: must be a mapping of keys to values"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse("p", []byte(test.text))
			if err == nil {
				t.Fatalf("accepted as %+v", p)
			}
			want := "p:" + strings.ReplaceAll(test.want, "\n", "\np:")
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("fault differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFaultsCarryTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := policy.Parse("policy.yaml", []byte(inDefault("min_gap: 0s")))
	got, ok := errors.AsType[*policy.Fault](err)
	if !ok {
		t.Fatalf("%v holds no Fault", err)
	}
	want := &policy.Fault{
		File: "policy.yaml", Line: 4, Column: 14,
		Message: "categories.default.min_gap: must be between 1ms and 366d, is 0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fault differs (-want +got):\n%s", diff)
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
