package messages_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/policy"
)

// parsePolicy reads a policy file.
func parsePolicy(text string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		_, err := policy.Parse("policy.yaml", []byte(text))
		if err == nil {
			t.Fatal("it is read")
		}
		return err.Error()
	}
}

// policyRows are faults of a policy file.
func policyRows() []row {
	return []row{
		{
			name: "nothing", provoke: parsePolicy(""),
			want: "policy.yaml:1:1: the file is empty; begin it with version: 1",
		},
		{
			name: "no version", provoke: parsePolicy("categories: {default: {limits: []}}"),
			want: "policy.yaml:1:1: version: is missing; begin the file with version: 1",
		},
		{
			name: "another version", provoke: parsePolicy("version: 2\ncategories: {default: {limits: []}}"),
			want: `policy.yaml:1:10: version: must be 1, the only version there is, is "2"`,
		},
		{
			name: "an unknown key", provoke: parsePolicy("version: 1\ncategorys: {}\n"),
			want: "policy.yaml:1:1: categories: is missing; a policy needs at least the category default\n" +
				"policy.yaml:2:1: categorys: unknown key (did you mean categories?); known here: version, " +
				"categories, user_cap, bypass_priority, retry",
		},
		{
			name: "no category default", provoke: parsePolicy("version: 1\ncategories: {chat: {limits: []}}"),
			want: "policy.yaml:2:1: categories.default: is missing; it is for notifications that name no category",
		},
		{
			name:    "an unknown key of a category",
			provoke: parsePolicy("version: 1\ncategories:\n  default: {limits: []}\n  chat: {limit: []}\n"),
			want: "policy.yaml:4:10: categories.chat.limit: unknown key (did you mean limits?); known here: " +
				"algorithm, " +
				"limits, min_gap, max_defer, bypass",
		},
		{
			name: "no limit",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: 0, per: 1s}]}\n"),
			want: "policy.yaml:4:25: categories.chat.limits[0].max: must be between 1 and 1000000, is 0",
		},
		{
			name: "a window of nothing",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: 1, per: 0s}]}\n"),
			want: "policy.yaml:4:33: categories.chat.limits[0].per: must be between 1ms and 366d, is 0s",
		},
		{
			name: "a window that is none",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: 1, per: soon}]}\n"),
			want: `policy.yaml:4:33: categories.chat.limits[0].per: must be a duration such as 500ms, 3s, 1m, 24h or ` +
				`1d, is "soon"`,
		},
		{
			name:    "a limit without window",
			provoke: parsePolicy("version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: 1}]}\n"),
			want:    "policy.yaml:4:19: categories.chat.limits[0]: needs per, the length of the window",
		},
		{
			name: "a text as number",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: many, per: 1s}]}\n"),
			want: `policy.yaml:4:25: categories.chat.limits[0].max: must be a whole number between 1 and 1000000, is ` +
				`"many"`,
		},
		{
			name:    "a gap that is none",
			provoke: parsePolicy("version: 1\ncategories:\n  default: {limits: []}\n  chat: {min_gap: 1}\n"),
			want: `policy.yaml:4:19: categories.chat.min_gap: must be a duration such as 500ms, 3s, 1m, 24h or ` +
				`1d, is ` +
				`"1"`,
		},
		{
			name: "an algorithm that is none",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {algorithm: leaky, limits: []}\n"),
			want: "policy.yaml:4:21: categories.chat.algorithm: must be rolling, fixed_window or token_bucket",
		},
		{
			name:    "a priority that is none",
			provoke: parsePolicy("version: 1\ncategories: {default: {limits: []}}\nbypass_priority: urgent"),
			want:    `policy.yaml:3:18: bypass_priority: must be critical, high, normal, low or "" for none, is urgent`,
		},
		{
			name:    "a category twice",
			provoke: parsePolicy("version: 1\ncategories:\n  default: {limits: []}\n  default: {limits: []}\n"),
			want:    "policy.yaml:4:3: categories.default: is already set on line 3",
		},
		{
			name:    "attempts of nothing",
			provoke: parsePolicy("version: 1\ncategories: {default: {limits: []}}\nretry: {max_attempts: 0}"),
			want:    "policy.yaml:3:23: retry.max_attempts: must be between 1 and 100, is 0",
		},
		{
			name: "a file that is no YAML", provoke: parsePolicy("version: ["),
			want: "policy.yaml:1:10: not readable as YAML: sequence end token ']' not found",
		},
		{
			name: "a list", provoke: parsePolicy("- version"),
			want: "policy.yaml:1:1: must be a mapping of keys to values",
		},
	}
}
