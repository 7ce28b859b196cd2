package effective_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/preferences"
)

const rulesText = `
version: 1
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}, {max: 100, per: 24h}], max_defer: 2h}
  security: {bypass: true}
  bulletin: {algorithm: fixed_window, limits: [{max: 5, per: 1h}]}
user_cap: {limits: [{max: 60, per: 1h}]}
retry: {max_attempts: 2, min_backoff: 1s, max_backoff: 10m}
`

func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fixed(t *testing.T, text string) *effective.Policy {
	t.Helper()
	p := parse(t, text)
	return effective.New(func() *policy.Policy { return p })
}

// wants returns the memory of one user's preferences.
func wants(t *testing.T, user string, p notification.Preferences) *preferences.Memory {
	t.Helper()
	m := preferences.NewMemory()
	if err := m.Set(user, &p); err != nil {
		t.Fatal(err)
	}
	return m
}

// ownLimits are a user's own in one category.
func ownLimits(category, limits string) notification.Preferences {
	return notification.Preferences{Limits: map[string]json.RawMessage{category: json.RawMessage(limits)}}
}

func rulesOf(p *effective.Policy, user, category string) (shown []string) {
	for _, rule := range p.Settings(user, category).Plan.Rules {
		shown = append(shown, rule.String())
	}
	return shown
}

func TestSettingsAreThoseOfThePolicyUnlessTheUserHasOwnLimits(t *testing.T) {
	t.Parallel()
	p := fixed(t, rulesText)
	p.Own = wants(t, "ada", ownLimits("chat", `{"limits": [{"max": 2, "per": "1h"}]}`))
	for _, c := range []struct {
		name, user, category string
		want                 []string
	}{
		{
			name: "NobodyInParticular", category: "chat",
			want: []string{"limit 1/3s", "limit 100/24h", "user_cap 60/1h"},
		},
		{
			name: "UserWithoutOwnLimits", user: "ben", category: "chat",
			want: []string{"limit 1/3s", "limit 100/24h", "user_cap 60/1h"},
		},
		{
			name: "OwnLimitsReplaceTheCategoryNotTheCap", user: "ada", category: "chat",
			want: []string{"limit 2/1h", "user_cap 60/1h"},
		},
		{
			name: "OwnLimitsOfAnotherCategory", user: "ada", category: "default",
			want: []string{"limit 10/1m", "user_cap 60/1h"},
		},
		{
			name: "CategoryThatThePolicyNoLongerNames", user: "ben", category: "gone",
			want: []string{"limit 10/1m", "user_cap 60/1h"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, rulesOf(p, c.user, c.category)); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
	if !p.Personal("ada") || p.Personal("ben") {
		t.Error("want own limits for ada alone")
	}
	if !p.Settings("ada", "chat").OwnLimits || p.Settings("ada", "default").OwnLimits ||
		p.Settings("ben", "chat").OwnLimits {
		t.Error("want own limits for ada's chat alone")
	}
}

func TestAPausedCategoryWaits(t *testing.T) {
	t.Parallel()
	p := fixed(t, rulesText)
	p.PausedFor = func(category string) time.Duration {
		if category == "chat" {
			return time.Minute
		}
		return 0
	}
	if got := p.Settings("ada", "chat").Paused; got != time.Minute {
		t.Errorf("chat waits %s, want 1m", got)
	}
	if got := p.Settings("ada", "default").Paused; got != 0 {
		t.Errorf("default waits %s, want 0", got)
	}
}

func TestSettingsFollowAReplacedPolicy(t *testing.T) {
	t.Parallel()
	current := parse(t, rulesText)
	p := effective.New(func() *policy.Policy { return current })
	if !p.Since().IsZero() || p.CheckCategory("chat") != nil {
		t.Fatalf("before the first change: since %s, chat: %v", p.Since(), p.CheckCategory("chat"))
	}
	before := time.Now()
	current = parse(t, strings.Replace(rulesText, "max: 10,", "max: 20,", 1))
	if p.Replaced().SameLimits {
		t.Error("another limit: want it to differ")
	}
	if p.Since().Before(before) {
		t.Errorf("replaced at %s, want it after %s", p.Since(), before)
	}
	if got := rulesOf(p, "", "default")[0]; got != "limit 20/1m" {
		t.Errorf("in effect: %s", got)
	}
	current = parse(t, strings.Replace(current.Text, "max_attempts: 2", "max_attempts: 3", 1))
	if !p.Replaced().SameLimits {
		t.Error("other retries: want no limit to differ")
	}
}

// countersText is a policy whose windows are counters.
const countersText = "version: 1\ncategories:\n  default: {algorithm: fixed_window, limits: [{max: 5, per: 1h}]}\n"

// A user's own limits reach back for that user, and for nobody else.
func TestLongestWindowReachesBackAsFarAsAnyRuleCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, own string
		want, ofAda     time.Duration // ofAda: if it differs
	}{
		{name: "Log", text: rulesText, want: 24 * time.Hour},
		{
			name: "OwnLimits", text: rulesText, own: `{"limits": [{"max": 1, "per": "366d"}]}`,
			want: 24 * time.Hour, ofAda: 366 * 24 * time.Hour,
		},
		{
			name: "ShorterOwnLimits", text: rulesText, own: `{"limits": [{"max": 1, "per": "1h"}]}`,
			want: 24 * time.Hour,
		},
		{
			name: "CounterBeganAWindowBefore", text: countersText, own: `{"limits": [{"max": 1, "per": "48h"}]}`,
			want: 2 * time.Hour, ofAda: 96 * time.Hour,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := fixed(t, c.text)
			if c.own != "" {
				p.Own = wants(t, "ada", ownLimits("default", c.own))
			}
			for user, want := range map[string]time.Duration{"": c.want, "eve": c.want, "ada": max(c.ofAda, c.want)} {
				if got := p.LongestWindow(user); got != want {
					t.Errorf("longest window of %q %s, want %s", user, got, want)
				}
			}
		})
	}
}

func TestHowLongANotificationMayTake(t *testing.T) {
	t.Parallel()
	p := fixed(t, rulesText)
	if got := p.MaxDefer("chat"); got != 2*time.Hour {
		t.Errorf("chat may be deferred for %s, want 2h", got)
	}
	if got := p.ShortestMaxDefer(); got != 2*time.Hour {
		t.Errorf("the shortest is %s, want that of chat", got)
	}
	own := notification.DeliverySettings{Retry: notification.Retry{Schedule: []time.Duration{time.Hour}}}
	// The wait after the first attempt is 2 s at most.
	if got, want := p.MaxLife("chat", "webhook", own), 2*time.Second+2*(2*time.Hour+time.Hour); got != want {
		t.Errorf("chat ends within %s, want %s: for each attempt a deferral and a Retry-After, and the waits", got, want)
	}
	p = fixed(t, "version: 1\ncategories: {default: {}}")
	if got, want := p.MaxLife("default", "webhook", own), 66*time.Minute+2*(24*time.Hour+time.Hour); got != want {
		t.Errorf("with the channel's schedule it ends within %s, want %s", got, want)
	}
}

// A category that the policy does not name is held, whatever bypasses, and without a max_defer. Its limits are known to
// the process that had them.
func TestACategoryThatIsGoneIsHeld(t *testing.T) {
	t.Parallel()
	current := parse(t, rulesText+"bypass_priority: critical\n")
	p := effective.New(func() *policy.Policy { return current })
	for _, gone := range []string{"bulletin", "security"} {
		before := p.Settings("ada", gone).Plan
		current = parse(t, "version: 1\nbypass_priority: critical\ncategories: {default: {}}\n")
		p.Replaced()
		s := p.Settings("ada", gone)
		if !s.Removed || s.BypassFrom != 0 || s.MaxDefer != 0 || !s.Plan.Equal(before) ||
			s.PausedBy() != notification.ReasonRemoved || slices.Contains(p.Categories(), gone) {
			t.Errorf("%s: %+v", gone, s)
		}
		if got := p.LongestWindow(""); got != 24*time.Hour {
			t.Errorf("the windows are kept for %s", got)
		}
		current = parse(t, rulesText)
		p.Replaced()
		if p.Settings("ada", gone).Removed {
			t.Errorf("%s is back, and held", gone)
		}
	}
	if !p.Settings("ada", "never").Removed {
		t.Error("a category that no policy named is not held")
	}
}

// A category that a reloaded policy no longer names is delivered as the default category.
func TestDeliveriesOfACategory(t *testing.T) {
	t.Parallel()
	p := fixed(t, `
version: 1
categories:
  default: {concurrency: 7, webhook: {final: [404]}}
  chat: {timeout: 3s, concurrency: 2, retry: {max_attempts: 3}}
channels:
  webhook: {concurrency: 9, timeout: 4s}
`)
	own := notification.DeliverySettings{Timeout: time.Second, Concurrency: 1}
	for _, c := range []struct {
		category string
		channel  notification.Channel
		want     string
	}{
		{category: "chat", channel: "webhook", want: "3 attempts, 3s, 2 of 9, 404 ends: false"},
		{category: "chat", channel: "fcm", want: "3 attempts, 3s, 2 of 1, 404 ends: false"},
		{category: "gone", channel: "webhook", want: "8 attempts, 4s, 7 of 9, 404 ends: true"},
		{category: "default", channel: "fcm", want: "8 attempts, 1s, 7 of 1, 404 ends: true"},
	} {
		t.Run(c.category+" over "+string(c.channel), func(t *testing.T) {
			t.Parallel()
			s := p.Deliveries(c.category, c.channel, own)
			got := fmt.Sprintf("%d attempts, %s, %d of %d, 404 ends: %t", s.Retry.MaxAttempts, s.Timeout,
				s.CategoryConcurrency, s.Concurrency, p.EndsAt(c.category, c.channel, 404))
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestCategoriesGoWithEachRoundUnlessTheyAreTooMany(t *testing.T) {
	t.Parallel()
	got, want := fixed(t, rulesText).Categories(), []string{"bulletin", "chat", "default", "security"}
	if !slices.Equal(got, want) {
		t.Errorf("categories %v, want %v", got, want)
	}
	var many strings.Builder
	many.WriteString("version: 1\ncategories:\n  default: {limits: [{max: 1, per: 1s}]}\n")
	for i := range 40 {
		fmt.Fprintf(&many, "  c%d: {limits: [{max: 1, per: 1s}]}\n", i)
	}
	p := fixed(t, many.String())
	if got := p.Categories(); got != nil {
		t.Errorf("%d categories go with each round, want none of 41", len(got))
	}
	if got := len(p.CategoryNames()); got != 41 {
		t.Errorf("%d names, want 41", got)
	}
}

func TestPreferencesAreRefusedWithEveryFault(t *testing.T) {
	t.Parallel()
	p := fixed(t, rulesText)
	channelFault := func(name string) string { return strings.TrimPrefix("no "+name, "no webhook") }
	for _, c := range []struct {
		name        string
		preferences notification.Preferences
		want        []string // the faulty fields
	}{
		{name: "Empty"},
		{
			name: "AllKnown",
			preferences: notification.Preferences{
				OptOutCategories: []string{"chat"}, OptOutChannels: []string{"webhook"},
				Limits: map[string]json.RawMessage{"chat": []byte(`{"limits": [{"max": 1, "per": "1h"}]}`)},
			},
		},
		{
			name: "NothingKnown",
			preferences: notification.Preferences{
				OptOutCategories: []string{"chat", "nope"}, OptOutChannels: []string{"pigeon"},
				Limits: map[string]json.RawMessage{"nope": []byte(`{"limits": []}`)},
			},
			want: []string{"opt_out.categories[1]", "opt_out.channels[0]", "limits.nope"},
		},
		{
			name: "LimitsThatCannotBeRead",
			preferences: notification.Preferences{
				Limits: map[string]json.RawMessage{"chat": []byte(`{"limits": [{"max": 0, "per": "1h"}]}`)},
			},
			want: []string{"limits.chat"},
		},
		{
			name: "DaysOfACounter",
			preferences: notification.Preferences{Limits: map[string]json.RawMessage{
				"bulletin": []byte(`{"limits": [{"max": 2, "per": "day"}]}`),
				"chat":     []byte(`{"limits": [{"max": 2, "per": "day"}]}`),
			}},
			want: []string{"limits.bulletin"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, fault := range notification.FieldErrors(p.CheckPreferences(&c.preferences, channelFault)) {
				got = append(got, fault.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s", diff)
			}
		})
	}
}
