package app_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A slot is moved to another shard while notifications of its partitions are accepted, wait and go out, and stays
// half-way for a while: whatever would have run on half of a partition is refused and tried again. Nothing is lost,
// sent twice or too early.
func TestRedisClusterSlotMoves(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, false)
			d, r := newDeploymentOn(t, on, cluster.URL()), newReceiver(t)
			d.run(d.settings, d.settings)
			var items []item
			for i := range 10 {
				items = append(items, r.crowd("user-"+strconv.Itoa(i), "default", 60)...)
			}
			ids := d.bulk(items)
			r.await(t, len(ids)/4)
			for partition := range 4 {
				from, slot := cluster.Holder(t, queue.PartitionName(partition))
				to := cluster.Masters[0]
				if from == to {
					to = cluster.Masters[1]
				}
				cluster.MoveSlot(t, slot, from, to, func() { <-time.After(100 * time.Millisecond) })
			}
			r.await(t, len(ids))
			d.awaitStats("nothing waits", func(s stats) bool { return s.Queued+s.Deferred+s.Sending+s.Retrying == 0 })
			byUser, seen := map[string][]arrival{}, map[string]int{}
			for _, a := range r.got() {
				seen[a.ID]++
				byUser[a.User] = append(byUser[a.User], a)
			}
			if len(seen) != len(ids) || len(r.got()) != len(ids) {
				t.Errorf("%d of %d came, in %d deliveries", len(seen), len(ids), len(r.got()))
			}
			for user, arrivals := range byUser {
				if n := violations(admittedAt(arrivals), crowdRules...); n != 0 {
					t.Errorf("%d violations for %s", n, user)
				}
			}
		})
	}
}
