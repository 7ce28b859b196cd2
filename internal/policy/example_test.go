package policy_test

import (
	"fmt"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

// show prints how a category is throttled.
func show(p *policy.Policy, name string) {
	c, _ := p.Category(name)
	fmt.Printf("%s: %s %v, max_defer %s\n", name, c.Plan.Algorithm, c.Plan.Rules, c.MaxDefer)
}

// Every fault of a file is found at once, each with its line and column.
func ExampleParse() {
	_, err := policy.Parse("my.yaml", []byte(`version: 1
categories:
  default:
    limits:
      - {max: 0, per: 1m}
    mingap: 3s
`))
	fmt.Println(strings.ReplaceAll(err.Error(), "; ", ";\n  "))
	// Output:
	// my.yaml:5:15: categories.default.limits[0].max: must be between 1 and 1000000, is 0
	// my.yaml:6:5: categories.default.mingap: unknown key (did you mean min_gap?);
	//   known here: algorithm, limits, min_gap, max_defer, bypass, quiet_hours, retry, timeout, concurrency, webhook
}

// A chat: one message each three seconds, at most a hundred a day, and nothing that is older than two hours.
func ExampleParse_category() {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
categories:
  default: {}
  chat:
    limits:
      - {max: 1, per: 3s}
      - {max: 100, per: 24h}
    max_defer: 2h
`))
	if err != nil {
		panic(err)
	}
	show(p, "chat")
	// Output:
	// chat: rolling [limit 1/3s limit 100/24h], max_defer 2h0m0s
}

// A newsletter: at least a day of quiet between two, and at most three a week.
func ExampleParse_minimumGap() {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
categories:
  default: {}
  newsletter:
    min_gap: 24h
    limits: [{max: 3, per: 7d}]
    max_defer: 14d
`))
	if err != nil {
		panic(err)
	}
	show(p, "newsletter")
	// Output:
	// newsletter: rolling [limit 3/168h min_gap 24h], max_defer 336h0m0s
}

// A cap counts all of a user's categories together, whatever each of them allows.
func ExampleParse_userCap() {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
user_cap:
  limits:
    - {max: 60, per: 1h}
    - {max: 200, per: 24h}
categories:
  default: {}
  chat:
    limits: [{max: 1, per: 3s}]
`))
	if err != nil {
		panic(err)
	}
	show(p, "default")
	show(p, "chat")
	// Output:
	// default: rolling [user_cap 60/1h user_cap 200/24h], max_defer 24h0m0s
	// chat: rolling [limit 1/3s user_cap 60/1h user_cap 200/24h], max_defer 24h0m0s
}

// Webhooks to the servers of a customer, the "user" of such a category: a token bucket takes bursts, and needs constant
// memory however high the limit is. A failed call is tried again for some hours.
func ExampleParse_webhooks() {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
categories:
  default: {}
  order-events:
    algorithm: token_bucket
    limits: [{max: 600, per: 1m}]
    max_defer: 3d
retry:
  max_attempts: 12
  min_backoff: 5s
  max_backoff: 1h
`))
	if err != nil {
		panic(err)
	}
	show(p, "order-events")
	fmt.Printf("%d attempts, between them %s to %s\n", p.Retry.MaxAttempts, p.Retry.MinBackoff, p.Retry.MaxBackoff)
	// Output:
	// order-events: token_bucket [limit 600/1m], max_defer 72h0m0s
	// 12 attempts, between them 5s to 1h0m0s
}

func ExamplePolicy_Category() {
	p := policy.Default()
	chat, _ := p.Category("chat")
	for _, rule := range chat.Plan.Rules {
		fmt.Println(rule)
	}
	// Output:
	// limit 1/3s
	// limit 100/24h
	// user_cap 60/1h
}

func ExampleParseDuration() {
	d, err := policy.ParseDuration("1d12h")
	fmt.Println(d, err)
	// Output:
	// 36h0m0s <nil>
}

func ExampleParseLimits() {
	limits, err := policy.ParseLimits([]byte(`{"limits": [{"max": 1, "per": "1h"}], "min_gap": "5m"}`))
	fmt.Println(limits, err)
	_, err = policy.ParseLimits([]byte(`{"limits": [{"max": 0, "per": "1h"}]}`))
	fmt.Println(err)
	// Output:
	// [limit 1/1h min_gap 5m] <nil>
	// limits[0].max: must be between 1 and 1000000, is 0
}

func ExamplePolicy_BypassFrom() {
	p, err := policy.Parse("policy.yaml", []byte(`version: 1
bypass_priority: critical
categories:
  default: {}
  security: {bypass: true}
`))
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"default", "security"} {
		category, _ := p.Category(name)
		from := p.BypassFrom(category)
		fmt.Println(name, notification.PriorityCritical.AtLeast(from), notification.PriorityNormal.AtLeast(from))
	}
	// Output:
	// default true false
	// security true true
}
