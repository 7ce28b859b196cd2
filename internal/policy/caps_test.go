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
		"limits: [{max: 3, per: 1d, reserve: {high: 1}}, {max: 1, per: 1h}]}, "+
		"{name: all, categories: [news], limits: [{max: 9, per: 1d}]}]")))
	if err != nil {
		t.Fatal(err)
	}
	push := throttle.Rule{Max: 3, Per: 24 * time.Hour, Kind: throttle.KindNamed, Cap: "push", Channels: "apns fcm"}
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

func TestACapOverAnUnknownChannelIsRefused(t *testing.T) {
	t.Parallel()
	text := capsOf("[{name: a, categories: [news], channels: [fmc], limits: [{max: 3, per: 7d}]}]")
	if _, err := policy.Parse("p", []byte(text)); err != nil {
		t.Errorf("where the channels are not known: %v", err)
	}
	if _, err := policy.Parse("p", []byte(text), "fcm", "log"); err == nil {
		t.Error("it is accepted")
	}
}
