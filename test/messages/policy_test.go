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

// parseForChannels reads a policy file that may name two channels.
func parseForChannels(text string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		_, err := policy.Parse("policy.yaml", []byte(text), "log", "webhook")
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
			want: `policy.yaml:1:10: version: must be 1, the only version so far, is "2"`,
		},
		{
			name: "an unknown key", provoke: parsePolicy("version: 1\ncategorys: {}\n"),
			want: "policy.yaml:1:1: categories: is missing; a policy needs at least the category default\n" +
				"policy.yaml:2:1: categorys: unknown key (did you mean categories?); known here: version, " +
				"categories, user_cap, bypass_priority, retry, channels, time_zone, windows, quiet_hours, caps",
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
				"limits, min_gap, max_defer, bypass, quiet_hours, retry, timeout, concurrency, webhook",
		},
		{
			name: "no limit",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: [{max: 0, per: 1s}]}\n"),
			want: "policy.yaml:4:25: categories.chat.limits[0].max: must be between 1 and 1000000, is 0",
		},
		{
			name: "a day of a window",
			provoke: parsePolicy("version: 1\ncategories:\n" +
				"  default: {algorithm: fixed_window, limits: [{max: 9, per: day}]}\n"),
			want: "policy.yaml:3:47: categories.default.limits[0].per: only the algorithm rolling can count in a day, " +
				"and the category has fixed_window",
		},
		{
			name: "a cap without categories",
			provoke: parsePolicy(
				"version: 1\ncategories: {default: {}}\ncaps: [{name: ads, limits: [{max: 3, per: 7d}]}]\n"),
			want: "policy.yaml:3:8: caps[0]: needs categories: those it counts; for a cap over all categories use user_cap",
		},
		{
			name: "a cap with no category in its list",
			provoke: parsePolicy(
				"version: 1\ncategories: {default: {}}\ncaps: [{name: ads, categories: [], limits: [{max: 3, per: 7d}]}]\n"),
			want: "policy.yaml:3:20: caps[0]: needs categories: those it counts; for a cap over all categories use user_cap",
		},
		{
			name:    "a cap without a name",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\ncaps: [{categories: [default], limits: [{max: 3, per: 7d}]}]\n"),
			want:    "policy.yaml:3:8: caps[0]: needs a name, which appears in its reason: cap:NAME",
		},
		{
			name:    "a cap without limits",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\ncaps: [{name: ads, categories: [default]}]\n"),
			want:    "policy.yaml:3:8: caps[0]: needs limits, a list such as [{max: 3, per: 7d}]",
		},
		{
			name: "reserves as large as their limit",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: [{max: 9, per: 1s, reserve: {high: 5, critical: 4}}]}\n"),
			want: "policy.yaml:3:40: categories.default.limits[0].reserve: keeps 9 of max 9, which leaves none for the less " +
				"urgent; it may keep at most 8 in all",
		},
		{
			name: "a period that is none",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: [{max: 3, per: weekday}]}\n"),
			want: `policy.yaml:3:36: categories.default.limits[0].per: must be a duration such as 500ms, 3s, 1m, 24h or 1d, ` +
				`or day, week or month; is "weekday"`,
		},
		{
			name: "a cap over an unknown category",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\n" +
				"caps: [{name: ads, categories: [promo], limits: [{max: 3, per: 7d}]}]\n"),
			want: `policy.yaml:3:33: caps[0].categories[0]: no category is named "promo"; the policy has default`,
		},
		{
			name: "a cap on an unknown channel",
			provoke: parseForChannels("version: 1\ncategories: {default: {}}\n" +
				"caps: [{name: ads, categories: [default], channels: [sms], limits: [{max: 3, per: 7d}]}]\n"),
			want: `policy.yaml:3:54: caps[0].channels[0]: unknown channel "sms"; known here: log, webhook`,
		},
		{
			name: "a cap's name twice",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\n" +
				"caps: [{name: ads, categories: [default], limits: [{max: 3, per: 7d}]},\n" +
				"  {name: ads, categories: [default], limits: [{max: 3, per: 8d}]}]\n"),
			want: "policy.yaml:4:10: caps[1].name: is already that of caps[0]",
		},
		{
			name: "a reserve for nobody",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: [{max: 9, per: 1s, reserve: {urgent: 2}}]}\n"),
			want: "policy.yaml:3:50: categories.default.limits[0].reserve.urgent: is not a priority; a reserve is for critical, " +
				"high or normal",
		},
		{
			name: "a reserve for the least urgent",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: [{max: 9, per: 1s, reserve: {low: 2}}]}\n"),
			want: "policy.yaml:3:50: categories.default.limits[0].reserve.low: keeps nothing, since nothing is less urgent " +
				"than low; a reserve is for critical, high or normal",
		},
		{
			name: "a reserve as large as its limit",
			provoke: parsePolicy(
				"version: 1\ncategories:\n  default: {limits: [{max: 9, per: 1s, reserve: {high: 9}}]}\n"),
			want: "policy.yaml:3:40: categories.default.limits[0].reserve: keeps 9 of max 9, which leaves none for the less " +
				"urgent; it may keep at most 8 in all",
		},
		{
			name: "a reserve of a bucket",
			provoke: parsePolicy("version: 1\ncategories:\n" +
				"  default: {algorithm: token_bucket, limits: [{max: 9, per: 1s, reserve: {high: 2}}]}\n"),
			want: "policy.yaml:3:47: categories.default.limits[0].reserve: only the algorithm rolling can keep a reserve, " +
				"and the category has token_bucket",
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
				`1d, or day, week or month; is "soon"`,
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
			want:    `policy.yaml:3:18: bypass_priority: must be critical, high, normal, low or "" for none, is "urgent"`,
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
			name:    "a schedule beside bounds",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nretry: {schedule: [5s], max_backoff: 1m}"),
			want:    "policy.yaml:3:25: retry.max_backoff: means nothing beside schedule; remove one of the two",
		},
		{
			name:    "an empty schedule",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nretry: {schedule: []}"),
			want:    "policy.yaml:3:19: retry.schedule: must be a list of waits such as [5s, 5m, 2h]; for no retry write max_attempts: 1",
		},
		{
			name:    "more attempts than waits",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nretry: {schedule: [5s], max_attempts: 3}"),
			want:    "policy.yaml:3:39: retry.max_attempts: must be at most 2, one more than schedule has waits, is 3",
		},
		{
			name:    "a time-out that is too long",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nchannels: {webhook: {timeout: 5m}}"),
			want:    "policy.yaml:3:31: channels.webhook.timeout: must be between 100ms and 1m, is 5m",
		},
		{
			name:    "a response that asks to try again",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nchannels: {webhook: {final: [429]}}"),
			want:    "policy.yaml:3:30: channels.webhook.final[0]: 429 asks to try again, so it can't be final",
		},
		{
			name:    "a response that is none",
			provoke: parsePolicy("version: 1\ncategories: {default: {}}\nchannels: {webhook: {final: [503]}}"),
			want:    `policy.yaml:3:30: channels.webhook.final[0]: must be a status between 300 and 499, 3xx or 4xx, is "503"`,
		},
		{
			name:    "a channel that there is not",
			provoke: parseForChannels("version: 1\ncategories: {default: {}}\nchannels: {webhok: {}}"),
			want:    "policy.yaml:3:12: channels.webhok: unknown channel (did you mean webhook?); known here: log, webhook",
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
