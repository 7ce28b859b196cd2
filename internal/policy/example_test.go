package policy_test

import (
	"fmt"
	"strings"

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
	fmt.Println(strings.NewReplacer("; ", ";\n  ", " retry, ", "\n  retry, ").Replace(err.Error()))
	// Output:
	// my.yaml:5:15: categories.default.limits[0].max: must be between 1 and 1000000, is 0
	// my.yaml:6:5: categories.default.mingap: unknown key (did you mean min_gap?);
	//   known here: algorithm, limits, min_gap, max_defer, bypass, quiet_hours, digest, overflow,
	//   retry, timeout, concurrency, webhook
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
