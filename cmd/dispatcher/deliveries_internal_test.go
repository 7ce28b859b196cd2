package main

import (
	"slices"
	"strings"
	"testing"
)

// The check prints what holds for the deliveries of each category over each channel. Channels with the same settings
// share a line, so the test looks at those whose line no further channel joins.
func TestPolicyCheckPrintsWhatHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"as the channels recommend": {
			text: "version: 1\ncategories: {default: {}}\n",
			want: []string{
				"CATEGORY CHANNELS ATTEMPTS WAITS BETWEEN THEM TIME-OUT AT ONCE ENDS AT",
				"(all) email 43 1m 5m 15m 30m 1h 2h 36×3h 30s as --concurrency",
				"(all) webhook 12 2s 10s 1m 5m 30m 2h 5h 10h 14h 20h 24h 20s as --concurrency",
			},
		},
		"the limits, as they were written": {
			text: `version: 1
categories:
  default: {limits: [{max: 5, per: 1m}, {max: 9, per: 1d, reserve: {high: 2}}], min_gap: 1500ms}
  news: {algorithm: token_bucket, limits: [{max: 3, per: 24h}], max_defer: 0.5d}
  tips: {limits: [{max: 3, per: day}], digest: {at: ["09:00", "18:00"]}}
  free: {bypass: true}
user_cap: {limits: [{max: 60, per: 60m}]}
caps: [{name: few, categories: [news], limits: [{max: 3, per: 7d}]}]
`,
			want: []string{
				"CATEGORY LIMITS MIN GAP MAX DEFER", "default 5/1m, 9/1d with reserve high 2 1500ms 24h (default)",
				"news 3/24h, token_bucket - 0.5d", "tips 3/day, digest at 09:00 18:00 - 48h (default)", "free none, bypass - 24h (default)",
				"(user_cap) 60/60m - -", "(cap:few) 3/7d - -",
			},
		},
		"as the file says": {
			text: `version: 1
categories:
  default: {}
  code: {retry: {max_attempts: 2}, webhook: {final: [404]}}
  report: {retry: {schedule: [1m30s, 1h], max_attempts: 2}, timeout: 500ms, concurrency: 8}
retry: {max_attempts: 3}
channels:
  webhook: {concurrency: 64, final: [4xx, 302]}
  "fcm:shop": {timeout: 15s, retry: {min_backoff: 1m}}
`,
			want: []string{
				"(others) email 3 1s to 10m 30s as --concurrency",
				"(others) fcm:shop 3 1m to 10m 15s as --concurrency",
				"(others) webhook 3 1s to 10m 20s 64 4xx 302",
				"code fcm:shop 2 1m to 10m 15s as --concurrency",
				"code webhook 2 1s to 10m 20s 64 404",
				"report webhook 2 1m30s 500ms 64, 8 of the category 4xx 302",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, "policy", "check", written(t, "policy.yaml", c.text))
			var lines []string
			for line := range strings.Lines(got.out) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			for _, want := range c.want {
				if got.code != 0 || !slices.Contains(lines, want) {
					t.Errorf("code %d, %q is missing:\n%s%s", got.code, want, got.out, got.err)
				}
			}
		})
	}
}
