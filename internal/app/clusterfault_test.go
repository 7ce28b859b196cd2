//go:build faults

package app_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/redistest"
)

// A shard's master is killed under load: its replica takes over, what it held goes on, and nothing is sent too early.
// What the master had not handed on yet may come twice; with the store in Postgres nothing is lost.
func TestRedisClusterShardFailsOver(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, true)
	d, r := newDeploymentOn(t, onPostgres, cluster.URL()), newReceiver(t)
	d.run(d.settings, d.settings)
	var items []item
	for i := range 40 {
		items = append(items, r.crowd("user-"+strconv.Itoa(i), "default", 60)...)
	}
	ids := d.bulk(items)
	r.await(t, len(ids)/4)
	cluster.Masters[1].Kill()
	for deadline := time.Now().Add(2 * patience); ; <-time.After(50 * time.Millisecond) {
		seen := map[string]bool{}
		for _, a := range r.got() {
			seen[a.ID] = true
		}
		if len(seen) == len(ids) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d arrived", len(seen), len(ids))
		}
	}
	byUser := map[string][]arrival{}
	first := map[string]bool{}
	for _, a := range r.got() {
		if !first[a.ID] {
			first[a.ID] = true
			byUser[a.User] = append(byUser[a.User], a)
		}
	}
	broken := 0
	for _, arrivals := range byUser {
		broken += violations(admittedAt(arrivals), crowdRules...)
	}
	t.Logf("%d arrived, %d twice, %d violations", len(first), len(r.got())-len(first), broken)
	if broken > 0 {
		t.Error("a limit was exceeded")
	}
}
