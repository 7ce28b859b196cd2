package policy_test

import (
	"fmt"

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
