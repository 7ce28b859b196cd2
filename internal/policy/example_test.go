package policy_test

import (
	"fmt"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
)

func ExampleParse() {
	_, err := policy.Parse("policy.yaml", []byte(`version: 1
categories:
  default:
    limits:
      - {max: 0, per: 1m}
    mingap: 3s
`))
	fmt.Println(err)
	// Output:
	// policy.yaml:5:15: categories.default.limits[0].max: must be between 1 and 1000000, is 0
	// policy.yaml:6:5: categories.default.mingap: unknown key; known here: algorithm, limits, min_gap, max_defer, bypass
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

func ExampleRetry_Backoff() {
	half := func() float64 { return 0.5 } // math/rand/v2.Float64 in a program
	for failures := 1; failures <= 3; failures++ {
		fmt.Println(policy.Default().Retry.Backoff(failures, half))
	}
	// Output:
	// 1.5s
	// 2.5s
	// 4.5s
}
