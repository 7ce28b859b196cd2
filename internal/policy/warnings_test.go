package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/policy"
)

// A file may say what it hardly means. Then it is in force, and each such place is named with its line.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing to say": {
			text: "  default: {limits: [{max: 10, per: 1m}, {max: 100, per: 1d}], min_gap: 3s}\n  free: {limits: [{max: 1, per: 1s}]}\n",
		},
		"no limit": {
			text: "  default: {}\n",
			want: []string{"p:3:3: categories.default: has no limit, and no user_cap holds it: its notifications go out as " +
				"fast as they come"},
		},
		"a cap is a limit": {text: "  default: {}\nuser_cap: {limits: [{max: 1, per: 1h}]}\n"},
		"bypass is no limit, and says so": {
			text: "  default: {min_gap: 1s}\n  alarm: {bypass: true}\n",
		},
		"bypass with limits": {
			text: "  default: {bypass: true, limits: [{max: 1, per: 1h}]}\n",
			want: []string{"p:3:36: categories.default.limits[0]: never holds anything back, because the category has " +
				"bypass: true; remove one of the two"},
		},
		"a gap longer than max_defer": {
			text: "  default: {min_gap: 2h, max_defer: 1h}\n",
			want: []string{"p:3:22: categories.default.min_gap: is 2h, longer than max_defer 1h: a notification that comes right after another expires instead of going out"},
		},
		"limits that hold for longer than anything waits": {
			text: "  default: {limits: [{max: 1, per: week}, {max: 1, per: 24h}], max_defer: 25h}\n  c: {limits: [{max: 9, per: 49h}]}\n" +
				"  d: {limits: [{max: 1, per: month}]}\n  bucket: {algorithm: token_bucket, limits: [{max: 7, per: 7d}]}\n" +
				"  free: {bypass: true}\ncaps: [{name: few, categories: [bucket, free], limits: [{max: 9, per: 25h}]}]\n",
			want: []string{
				"p:3:22: categories.default.limits[0]: holds for up to 170h once it is full, longer than max_defer 25h: notifications expire instead of going out; raise max_defer",
				"p:4:16: categories.c.limits[0]: holds for up to 49h once it is full, longer than max_defer 24h: notifications expire instead of going out; raise max_defer",
				"p:5:16: categories.d.limits[0]: holds for up to 746h once it is full, longer than max_defer 48h: notifications expire instead of going out; raise max_defer",
				"p:6:3: categories.bucket: may wait for max_defer 24h, and caps[0] holds for up to 25h once it is full: notifications expire instead of going out; raise max_defer",
			},
		},
		"a day, and a night, pass within the default": {
			text: "  default: {limits: [{max: 3, per: day}]}\n  b: {limits: [{max: 1, per: 1h}]}\nuser_cap: {limits: [{max: 9, per: day}]}\n",
		},
		"a longer window with no more": {
			text: "  default: {limits: [{max: 10, per: 1m}, {max: 10, per: 1h}]}\n",
			want: []string{"p:3:22: categories.default.limits[0]: never blocks anything: " +
				"categories.default.limits[1] is stricter"},
		},
		"the same window twice": {
			text: "  default: {limits: [{max: 5, per: 1m}, {max: 9, per: 1m}]}\n",
			want: []string{"p:3:41: categories.default.limits[1]: never blocks anything: " +
				"categories.default.limits[0] is stricter"},
		},
		"a gap that never fills a window": {
			text: "  default: {limits: [{max: 20, per: 1m}], min_gap: 3s}\n",
			want: []string{"p:3:22: categories.default.limits[0]: never blocks anything: " +
				"categories.default.min_gap is stricter"},
		},
		"a gap that nearly does": {text: "  default: {limits: [{max: 19, per: 1m}], min_gap: 3s}\n"},
		"a cap that is stricter": {
			text: "  default: {limits: [{max: 20, per: 1m}]}\nuser_cap: {limits: [{max: 20, per: 1h}]}\n",
			want: []string{"p:3:22: categories.default.limits[0]: never blocks anything: user_cap.limits[0] is " +
				"stricter"},
		},
		"a day is not a window": {
			text: "  default: {limits: [{max: 3, per: day}, {max: 3, per: 1h}]}\n",
		},
		"less room for the less urgent": {
			text: "  default: {limits: [{max: 10, per: 1m}, {max: 12, per: 1h, reserve: {high: 3}}]}\n",
		},
		"no more room for anybody": {
			text: "  default: {limits: [{max: 10, per: 1m}, {max: 10, per: 1h, reserve: {high: 3}}]}\n",
			want: []string{"p:3:22: categories.default.limits[0]: never blocks anything: " +
				"categories.default.limits[1] is stricter"},
		},
		"counters admit more at their edges": {
			text: "  default: {algorithm: fixed_window, limits: [{max: 10, per: 1m}, {max: 10, per: 1h}]}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse("p", []byte("version: 1\ncategories:\n"+c.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range policy.Warnings("p", p) {
				got = append(got, w.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("warnings differ (-want +got):\n%s", diff)
			}
		})
	}
}
