package effective_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// What an earlier policy had the limiter remember is known by log, and of policies that this process never had nothing.
func TestRemembers(t *testing.T) {
	t.Parallel()
	const before = `version: 1
user_cap: {limits: [{max: 60, per: 1h}]}
caps: [{name: marketing, categories: [chat], limits: [{max: 3, per: 2h}]}]
categories:
  default: {limits: [{max: 10, per: 1m}]}
  chat: {limits: [{max: 1, per: 3s}], min_gap: 1s}
  bulletin: {algorithm: fixed_window, limits: [{max: 3, per: 1h}], min_gap: 5s}
`
	current := parse(t, before)
	first := current.Version()
	p := effective.New(func() *policy.Policy { return current })
	current = parse(t, before+"# another\n")
	p.Replaced()
	for name, c := range map[string]struct {
		version, category string
		rule              throttle.Rule
		want              bool
	}{
		"as long":           {version: first, category: "chat", rule: throttle.Rule{Per: 3 * time.Second}, want: true},
		"longer":            {version: first, category: "chat", rule: throttle.Rule{Per: 4 * time.Second}},
		"longer in another": {version: first, category: "default", rule: throttle.Rule{Per: time.Minute}, want: true},
		"a gap": {
			version: first, category: "chat", rule: throttle.Rule{Per: 2 * time.Second, Kind: throttle.KindGap},
			want: true,
		},
		"the user's cap": {
			version: first, category: "chat", rule: throttle.Rule{Per: time.Hour, Kind: throttle.KindCap},
			want: true,
		},
		"a longer user's cap": {
			version: first, category: "chat", rule: throttle.Rule{Per: 2 * time.Hour, Kind: throttle.KindCap},
		},
		"a named cap": {
			version: first, category: "chat", rule: throttle.Rule{Per: time.Hour, Kind: throttle.KindNamed, Cap: "marketing"},
			want: true,
		},
		"another cap": {
			version: first, category: "chat", rule: throttle.Rule{Per: time.Hour, Kind: throttle.KindNamed, Cap: "all"},
		},
		"a counter":       {version: first, category: "bulletin", rule: throttle.Rule{Per: time.Hour}},
		"an old category": {version: first, category: "gone", rule: throttle.Rule{Per: time.Second}},
		"an old version":  {version: "never seen", category: "chat", rule: throttle.Rule{Per: time.Second}},
	} {
		if got := p.Remembers(c.version, c.category, c.rule); got != c.want {
			t.Errorf("%s: remembers %t, want %t", name, got, c.want)
		}
	}
}
