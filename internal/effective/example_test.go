package effective_test

import (
	"fmt"

	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/policy"
)

// The settings in effect for a user's category come from the policy in force.
func ExamplePolicy_Settings() {
	inForce := policy.Default()
	p := effective.New(func() *policy.Policy { return inForce })
	for _, rule := range p.Settings("ada", "chat").Plan.Rules {
		fmt.Println(rule)
	}
	// Output:
	// limit 1/3s
	// limit 100/24h
	// user_cap 60/1h
}
