package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// capsOf puts caps into a policy with three categories.
func capsOf(caps string) string {
	return "version: 1\ncategories: {default: {min_gap: 3s}, promo: {}, news: {min_gap: 1s}}\ncaps: " + caps + "\n"
}

func TestCapsAreInThePlansOfTheirCategories(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte(capsOf("[{name: push, categories: [promo, news], channels: [fcm, apns], "+
		"limits: [{max: 3, per: 7d, reserve: {high: 1}}, {max: 1, per: 1h}]}, "+
		"{name: all, categories: [news], limits: [{max: 9, per: 1d}]}]")))
	if err != nil {
		t.Fatal(err)
	}
	push := throttle.Rule{Max: 3, Per: 7 * 24 * time.Hour, Kind: throttle.KindNamed, Cap: "push", Channels: "apns fcm"}
	push.Reserve[notification.PriorityHigh-1] = 1
	hourly := throttle.Rule{Max: 1, Per: time.Hour, Kind: throttle.KindNamed, Cap: "push", Channels: "apns fcm"}
	all := throttle.Rule{Max: 9, Per: 24 * time.Hour, Kind: throttle.KindNamed, Cap: "all"}
	for category, want := range map[string][]throttle.Rule{
		"default": {gap(3 * time.Second)},
		"promo":   {push, hourly},
		"news":    {gap(time.Second), push, hourly, all},
	} {
		if diff := cmp.Diff(want, p.Categories[category].Plan.Rules); diff != "" {
			t.Errorf("rules of %s (-want +got):\n%s", category, diff)
		}
		if err := p.Categories[category].Plan.Validate(); err != nil {
			t.Errorf("plan of %s: %v", category, err)
		}
	}
	if warnings := policy.Warnings("p", p); len(warnings) > 0 {
		t.Errorf("warnings: %v", warnings)
	}
}

func TestParseReadsPeriods(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse("p", []byte("version: 1\ncategories: {default: {limits: [{max: 3, per: day}, {max: 5, per: 1d}, "+
		"{max: 2, per: day}, {max: 9, per: week}, {max: 20, per: month}]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []throttle.Rule{
		{Max: 2, Per: throttle.Day.Longest(), Period: throttle.Day},
		{Max: 5, Per: 24 * time.Hour},
		{Max: 9, Per: throttle.Week.Longest(), Period: throttle.Week},
		{Max: 20, Per: throttle.Month.Longest(), Period: throttle.Month},
	}
	plan := p.Categories["default"].Plan
	if diff := cmp.Diff(want, plan.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if err := plan.Validate(); err != nil {
		t.Error(err)
	}
	own, err := policy.ParseLimits([]byte(`{"limits": [{"max": 1, "per": "day"}]}`))
	if err != nil || len(own) != 1 || own[0].Period != throttle.Day {
		t.Errorf("own limits %+v, %v", own, err)
	}
}

func TestParseRefusesCaps(t *testing.T) {
	t.Parallel()
	const limits = "limits: [{max: 3, per: 7d}]"
	faulty{
		"no list": {
			text: capsOf("{}"), want: "3:7: caps: must be a list of caps such as " +
				"[{name: marketing, categories: [promo, news], limits: [{max: 3, per: 7d}]}]",
		},
		"no name": {
			text: capsOf("[{categories: [news], " + limits + "}]"),
			want: "3:8: caps[0]: needs a name, which appears in its reason: cap:NAME",
		},
		"a colon in the name": {
			text: capsOf("[{name: 'a:b', categories: [news], " + limits + "}]"),
			want: "3:15: caps[0].name: must be 1 to 64 of A-Z a-z 0-9 . _ -",
		},
		"a name twice": {
			text: capsOf("[{name: a, categories: [news], " + limits + "}, " +
				"{name: a, categories: [promo], " + limits + "}]"),
			want: "3:75: caps[1].name: is already that of caps[0]",
		},
		"no categories": {
			text: capsOf("[{name: a, " + limits + "}]"),
			want: "3:8: caps[0]: needs categories: those it counts; for a cap over all categories use user_cap",
		},
		"empty categories": {
			text: capsOf("[{name: a, categories: [], " + limits + "}]"),
			want: "3:18: caps[0]: needs categories: those it counts; for a cap over all categories use user_cap",
		},
		"an unknown category": {
			text: capsOf("[{name: a, categories: [news, prom], " + limits + "}]"),
			want: `3:37: caps[0].categories[1]: no category is named "prom"; the policy has default, news, promo ` +
				"(did you mean promo?)",
		},
		"an unknown channel": {
			text: capsOf("[{name: a, categories: [news], channels: [fcm shop], " + limits + "}]"),
			want: "3:49: caps[0].channels[0]: must be the name of a channel, such as fcm or fcm:shop",
		},
		"no channels": {
			text: capsOf("[{name: a, categories: [news], channels: [], " + limits + "}]"),
			want: "3:38: caps[0].channels: names no channel; leave it out to count all",
		},
		"no limits": {
			text: capsOf("[{name: a, categories: [news]}]"),
			want: "3:8: caps[0]: needs limits, a list such as [{max: 3, per: 7d}]",
		},
		"empty limits": {
			text: capsOf("[{name: a, categories: [news], limits: []}]"),
			want: "3:38: caps[0].limits: has no limit, so it caps nothing; add one such as {max: 3, per: 7d}",
		},
		"five caps": {
			text: capsOf("[{name: a, categories: [news], " + limits + "}, " +
				"{name: b, categories: [news], " + limits + "}, " +
				"{name: c, categories: [news], " + limits + "}, {name: d, categories: [news], " + limits + "}, " +
				"{name: e, categories: [news], " + limits + "}]"),
			want: "3:248: caps[4]: is one cap too many for the category news, which may be in 4",
		},
	}.run(t)
	_, err := policy.Parse("p", []byte(capsOf("[{name: a, categories: [news], channels: [fmc], "+limits+"}]")), "fcm", "log")
	want := `p:3:49: caps[0].channels[0]: unknown channel "fmc" (did you mean fcm?); known here: fcm, log`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
