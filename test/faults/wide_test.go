//go:build faults

package faults_test

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// wideCategories is how many categories the wide user has: more than a round looks at.
const wideCategories = 200

// wideScenarios are what a user does who has many categories.
func wideScenarios() []*scenario {
	return []*scenario{{
		name: "WideUser",
		fault: fmt.Sprintf("a user to whom something waits in %d categories of five rules, under a cap of three",
			wideCategories),
		goesOn: true, acceptsOn: true, between: manyCategories,
		without: protection{
			name: "a round begins where the one before ended",
			rewrites: []rewrite{{
				file: "internal/agenda/lua/wakeups.lua", says: "held + (backlog.seen and 4 or 0)", instead: "held",
			}},
		},
		inject: func(d *deployment) {
			var items []item
			for n := range wideCategories {
				key := fmt.Sprint("wide", n)
				items = append(items, item{
					"id": key, "title": key, "user_id": "wide", "to": d.target, "category": fmt.Sprint("c", n),
				})
			}
			d.insist(items, 30*time.Second, nil)
			d.last(5 * time.Second)
		},
	}}
}

// manyCategories adds categories to the policy, and what each user may get at most over all of them: what the default
// category allows.
func manyCategories(d *deployment) {
	var b strings.Builder
	b.WriteString(strings.Replace(policy, "version: 1\n",
		"version: 1\nuser_cap: {limits: [{max: 5, per: 2s}, {max: 15, per: 6s}, {max: 1, per: 20ms}]}\n", 1))
	added := "categories:\n"
	for n := range wideCategories {
		added += fmt.Sprintf("  c%d: {min_gap: 30ms, limits: "+
			"[{max: 4, per: 1m}, {max: 3, per: 30s}, {max: 2, per: 3s}, {max: 9, per: 1h}]}\n", n)
	}
	text := strings.Replace(b.String(), "categories:\n", added, 1)
	if err := os.WriteFile(d.policy, []byte(text), 0o600); err != nil {
		d.fail("write the policy: %v", err)
	}
}
