package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
)

// faulty is a table of policy files, each with its faults without the name of the file.
type faulty map[string]struct{ text, want string }

// run parses each file.
func (files faulty) run(t *testing.T) {
	t.Helper()
	for name, test := range files {
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

func TestParseRefusesFiles(t *testing.T) {
	t.Parallel()
	faulty{
		"nothing":         {text: "", want: "1:1: the file is empty; begin it with version: 1"},
		"a comment alone": {text: "# later\n", want: "1:1: the file is empty; begin it with version: 1"},
		"a list":          {text: "- version: 1\n", want: "1:1: must be a mapping of keys to values"},
		"broken YAML": {
			text: "version: 1\ncategories: [\n", want: "2:13: not readable as YAML: sequence end token ']' not found",
		},
		"bytes that are no text": {text: "version: 1\n  \xff", want: "2:3: the file is not valid UTF-8"},
		"a second document": {
			text: atEnd("---", "version: 1"), want: "4:1: a policy is one YAML document, and a second begins here",
		},
		"too many bytes": {
			text: strings.Repeat("# filler\n", 1<<17),
			want: "1:1: the file has more than the 1048576 bytes that a policy may have",
		},
		"deep nesting": {
			text: "a:\n  " + strings.Repeat("[", 100),
			want: "2:1: nested deeper, or on a longer line, than any policy is",
		},
		"deep lists": {
			text: "a:\n" + strings.Repeat("- ", 5000),
			want: "2:1: nested deeper, or on a longer line, than any policy is",
		},
		"deep over lines": {
			text: strings.Repeat("[\n", 100), want: "65:1: nested deeper, or on a longer line, than any policy is",
		},
	}.run(t)
}

func TestParseRefusesCategories(t *testing.T) {
	t.Parallel()
	const keys = "known here: algorithm, limits, min_gap, max_defer, bypass, quiet_hours, " +
		"retry, timeout, concurrency, webhook"
	const names = "a category's name must be 1 to 64 of A-Z a-z 0-9 . _ -"
	faulty{
		"no version": {
			text: "categories: {default: {}}\n", want: "1:1: version: is missing; begin the file with version: 1",
		},
		"another version": {
			text: "version: 2\ncategories: {default: {}}\n",
			want: `1:10: version: must be 1, the only version so far, is "2"`,
		},
		"no categories": {
			text: "version: 1\n", want: "1:1: categories: is missing; a policy needs at least the category default",
		},
		"no default": {
			text: "version: 1\ncategories: {chat: {}}\n",
			want: "2:1: categories.default: is missing; it is for notifications that name no category",
		},
		"categories a list": {
			text: "version: 1\ncategories: [default]\n", want: "2:13: categories: must be a mapping of keys to values",
		},
		"unknown key": {
			text: atEnd("limits: []"),
			want: "3:1: limits: unknown key; known here: version, categories, user_cap, bypass_priority, " +
				"retry, channels, time_zone, windows, quiet_hours, caps",
		},
		"key twice":   {text: atEnd("", "version: 1"), want: "4:1: version: is already set on line 1"},
		"key no name": {text: atEnd("~: 1"), want: "3:1: a key must be a plain name"},
		"merge key": {
			text: "version: 1\ncategories:\n  a: &a {}\n  default:\n    <<: *a\n",
			want: "5:5: categories.default: a key must be a plain name",
		},
		"unknown alias": {
			text: inDefault("limits: *l"), want: `4:13: categories.default.limits: no anchor is named "l"`,
		},
		"alias of itself": {text: "version: 1\ncategories: {default: &a {limits: [*a]}}\n", want: strings.Join([]string{
			"2:26: categories.default.limits[0]: needs max, how many notifications may go out",
			"2:26: categories.default.limits[0]: needs per, the length of the window",
			"2:27: categories.default.limits[0].limits: unknown key; known here: max, per, reserve",
		}, "\n")},
		"anchor twice": {
			text: "version: 1\ncategories: {default: &a {}, chat: &a {}}\n",
			want: `2:36: the anchor "a" is already in use`,
		},
		"category twice": {
			text: "version: 1\ncategories:\n  default: {}\n  chat: {}\n  default: {}\n",
			want: "5:3: categories.default: is already set on line 3",
		},
		"category unnamed": {
			text: "version: 1\ncategories: {default: {}, '': {}}\n", want: `2:27: categories."": ` + names,
		},
		"colon in category": {
			text: "version: 1\ncategories: {default: {}, 'a:b': {}}\n", want: `2:27: categories."a:b": ` + names,
		},
		"long category": {
			text: "version: 1\ncategories: {default: {}, " + strings.Repeat("a", 65) + ": {}}\n",
			want: `2:27: categories."` + strings.Repeat("a", 65) + `": ` + names,
		},
		"category without {}": {
			text: "version: 1\ncategories:\n  default:\n  chat: {}\n",
			want: "3:3: categories.default: has no settings; write {} for a category without limits",
		},
		"category a number": {
			text: "version: 1\ncategories: {default: 3}\n",
			want: "2:23: categories.default: must be a mapping of keys to values",
		},
		"unknown in category": {
			text: inDefault("limit: []"), want: "4:5: categories.default.limit: unknown key (did you mean limits?); " + keys,
		},
		"unknown algorithm": {
			text: inDefault("algorithm: leaky"),
			want: "4:16: categories.default.algorithm: must be rolling, fixed_window or token_bucket",
		},
		"algorithm a list": {
			text: inDefault("algorithm: [rolling]"),
			want: "4:16: categories.default.algorithm: must be rolling, fixed_window or token_bucket",
		},
	}.run(t)
}

func TestParseRefusesLimits(t *testing.T) {
	t.Parallel()
	const (
		atMax     = "4:20: categories.default.limits[0].max: "
		atPer     = "4:28: categories.default.limits[0].per: "
		durations = "must be a duration such as 500ms, 3s, 1m, 24h or 1d"
		periods   = ", or day, week or month; is "
		inRange   = "must be between 1ms and 366d, is "
		whole     = "must be a whole number between 1 and 1000000"
	)
	faulty{
		"limits a mapping": {
			text: inDefault("limits: {max: 1, per: 1s}"),
			want: "4:13: categories.default.limits: must be a list of limits such as [{max: 10, per: 1m}]",
		},
		"limits empty": {
			text: inDefault("limits:"),
			want: "4:5: categories.default.limits: must be a list of limits such as [{max: 10, per: 1m}]",
		},
		"too many limits": {
			text: inDefault("limits: [" + strings.Repeat("{max: 1, per: 1s}, ", 33) + "]"),
			want: "4:13: categories.default.limits: has 33 limits, more than the 32 that one list may have",
		},
		"limit a number": {
			text: inDefault("limits: [10]"),
			want: "4:14: categories.default.limits[0]: must be a mapping of keys to values",
		},
		"unknown in limit": {
			text: inDefault("limits: [{max: 1, per: 1s, burst: 2}]"),
			want: "4:32: categories.default.limits[0].burst: unknown key; known here: max, per, reserve",
		},
		"no max": {
			text: inDefault("limits:", "  - per: 1s"),
			want: "5:9: categories.default.limits[0]: needs max, how many notifications may go out",
		},
		"no per": {
			text: inDefault("limits: [{max: 1}]"),
			want: "4:14: categories.default.limits[0]: needs per, the length of the window",
		},
		"max 0": {
			text: inDefault("limits:", "  - {max: 1, per: 1s}", "  - {max: 0, per: 1s}"),
			want: "6:15: categories.default.limits[1].max: must be between 1 and 1000000, is 0",
		},
		"max negative": {
			text: inDefault("limits: [{max: -1, per: 1s}]"), want: atMax + "must be between 1 and 1000000, is -1",
		},
		"max too large": {
			text: inDefault("limits: [{max: 1000001, per: 1s}]"),
			want: atMax + "must be between 1 and 1000000, is 1000001",
		},
		"max beyond integers": {
			text: inDefault("limits: [{max: 99999999999999999999, per: 1s}]"),
			want: atMax + whole + `, is "99999999999999999999"`,
		},
		"max a fraction": {text: inDefault("limits: [{max: 1.5, per: 1s}]"), want: atMax + whole + `, is "1.5"`},
		"max a text":     {text: inDefault("limits: [{max: '5', per: 1s}]"), want: atMax + whole + `, is "'5'"`},
		"max octal": {
			text: inDefault("limits: [{max: 010, per: 1s}]"), want: atMax + whole + ", in plain decimal digits",
		},
		"reserve a number": {
			text: inDefault("limits: [{max: 5, per: 1s, reserve: 2}]"),
			want: "4:41: categories.default.limits[0].reserve: must be a mapping of keys to values",
		},
		"reserve for nobody": {
			text: inDefault("limits: [{max: 5, per: 1s, reserve: {hgih: 2}}]"),
			want: "4:42: categories.default.limits[0].reserve.hgih: is not a priority; a reserve is for critical, high or normal " +
				"(did you mean high?)",
		},
		"reserve for low": {
			text: inDefault("limits: [{max: 5, per: 1s, reserve: {low: 2}}]"),
			want: "4:42: categories.default.limits[0].reserve.low: keeps nothing, since nothing is less urgent than low; " +
				"a reserve is for critical, high or normal",
		},
		"reserve of nothing": {
			text: inDefault("limits: [{max: 5, per: 1s, reserve: {high: 0}}]"),
			want: "4:48: categories.default.limits[0].reserve.high: must be between 1 and 1000000, is 0",
		},
		"reserve as large as the limit": {
			text: inDefault("limits: [{max: 5, per: 1s, reserve: {critical: 2, high: 3}}]"),
			want: "4:32: categories.default.limits[0].reserve: keeps 5 of max 5, which leaves none for the less urgent; " +
				"it may keep at most 4 in all",
		},
		"a day of a counter": {
			text: inDefault("algorithm: fixed_window", "limits: [{max: 5, per: day}]"),
			want: "5:14: categories.default.limits[0].per: only the algorithm rolling can count in a day, and the category " +
				"has fixed_window",
		},
		"a gap of a day": {
			text: inDefault("min_gap: day"),
			want: "4:14: categories.default.min_gap: must be a duration such as 500ms, 3s, 1m, 24h or 1d, is \"day\"",
		},
		"reserve of a counter": {
			text: inDefault("algorithm: token_bucket", "limits: [{max: 5, per: 1s, reserve: {high: 3}}]"),
			want: "5:14: categories.default.limits[0].reserve: only the algorithm rolling can keep a reserve, and the " +
				"category has token_bucket",
		},
		"window of 0":      {text: inDefault("limits: [{max: 1, per: 0s}]"), want: atPer + inRange + "0s"},
		"window of bare 0": {text: inDefault("limits: [{max: 1, per: 0}]"), want: atPer + inRange + "0"},
		"window negative":  {text: inDefault("limits: [{max: 1, per: -1m}]"), want: atPer + inRange + "-1m"},
		"window too short": {text: inDefault("limits: [{max: 1, per: 999us}]"), want: atPer + inRange + "999us"},
		"window too long":  {text: inDefault("limits: [{max: 1, per: 367d}]"), want: atPer + inRange + "367d"},
		"window too fine": {
			text: inDefault("limits: [{max: 1, per: 1000001ns}]"),
			want: atPer + "must be whole microseconds, is 1.000001ms",
		},
		"window without a unit": {
			text: inDefault("limits: [{max: 1, per: 60}]"), want: atPer + durations + periods + `"60"`,
		},
		"window in words": {
			text: inDefault("limits: [{max: 1, per: 1 minute}]"), want: atPer + durations + periods + `"1 minute"`,
		},
		"window a list": {text: inDefault("limits: [{max: 1, per: [1s]}]"), want: atPer + durations},
	}.run(t)
}

func TestParseRefusesOtherSettings(t *testing.T) {
	t.Parallel()
	faulty{
		"gap of 0": {
			text: inDefault("min_gap: 0s"),
			want: "4:14: categories.default.min_gap: must be between 1ms and 366d, is 0s",
		},
		"gap too short": {
			text: inDefault("min_gap: 0.5ms"),
			want: "4:14: categories.default.min_gap: must be between 1ms and 366d, is 0.5ms",
		},
		"max_defer of 0": {
			text: inDefault("max_defer: 0s"),
			want: "4:16: categories.default.max_defer: must be more than 0 and at most 90d, is 0s",
		},
		"max_defer too long": {
			text: inDefault("max_defer: 91d"),
			want: "4:16: categories.default.max_defer: must be more than 0 and at most 90d, is 91d",
		},
		"bypass a word": {
			text: inDefault("bypass: yes"), want: "4:13: categories.default.bypass: must be true or false",
		},
		"cap without limits": {
			text: atEnd("user_cap: {}"), want: "3:1: user_cap: needs limits, a list such as [{max: 60, per: 1h}]",
		},
		"cap with a gap": {
			text: atEnd("user_cap: {limits: [], min_gap: 1s}"),
			want: "3:24: user_cap.min_gap: unknown key; known here: limits",
		},
		"cap a list": {
			text: atEnd("user_cap: [{max: 1, per: 1s}]"), want: "3:11: user_cap: must be a mapping of keys to values",
		},
		"cap max 0": {
			text: atEnd("user_cap:", "  limits:", "    - max: 0", "      per: 1s"),
			want: "5:12: user_cap.limits[0].max: must be between 1 and 1000000, is 0",
		},
		"unknown priority": {
			text: atEnd("bypass_priority: urgent"),
			want: `3:18: bypass_priority: must be critical, high, normal, low or "" for none, is "urgent"`,
		},
		"priority empty": {
			text: atEnd("bypass_priority:"),
			want: `3:1: bypass_priority: must be critical, high, normal, low or "" for none, is null`,
		},
		"unknown in retry": {
			text: atEnd("retry: {attempts: 3}"),
			want: "3:9: retry.attempts: unknown key; known here: max_attempts, min_backoff, max_backoff, schedule",
		},
		"no attempts": {
			text: atEnd("retry: {max_attempts: 0}"), want: "3:23: retry.max_attempts: must be between 1 and 100, is 0",
		},
		"too many attempts": {
			text: atEnd("retry: {max_attempts: 101}"),
			want: "3:23: retry.max_attempts: must be between 1 and 100, is 101",
		},
		"back-off of 0": {
			text: atEnd("retry: {min_backoff: 0s}"),
			want: "3:22: retry.min_backoff: must be more than 0 and at most 90d, is 0s",
		},
		"back-off too long": {
			text: atEnd("retry: {max_backoff: 91d}"),
			want: "3:22: retry.max_backoff: must be more than 0 and at most 90d, is 91d",
		},
		"back-offs crossed": {
			text: atEnd("retry: {min_backoff: 2s, max_backoff: 1s}"),
			want: "3:22: retry: min_backoff (2s) must not be longer than max_backoff (1s)",
		},
		"below the default": {
			text: atEnd("retry: {max_backoff: 500ms}"),
			want: "3:22: retry: min_backoff (1s) must not be longer than max_backoff (500ms)",
		},
		"retry a number": {text: atEnd("retry: 8"), want: "3:8: retry: must be a mapping of keys to values"},
	}.run(t)
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
