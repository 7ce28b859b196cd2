package app_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/redistest"
)

// onCluster is a deployment of two processes on a Redis Cluster of three shards.
func onCluster(t *testing.T, cluster *redistest.Cluster, on setup) *fleet {
	t.Helper()
	d := newDeploymentOn(t, on, cluster.URL())
	d.writePolicy(crowdPolicy)
	d.start()
	d.start()
	return d
}

// Everything works on Redis Cluster: partitions lie on all shards, and what one user may get is counted on one.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, false)
			d, r := onCluster(t, cluster, on), newReceiver(t)
			var items []item
			for i := range 60 {
				items = append(items, r.crowd("user-"+strconv.Itoa(i), "default", 3)...)
			}
			items = append(items, r.crowd("ada", "default", 40)...)
			ids := d.bulk(items)
			waits := d.bulk(r.crowd("ben", "slow", 3))
			s := d.awaitStats("all are delivered", func(s stats) bool {
				return s.Totals.Delivered == int64(len(ids)+1) && s.Deferred == 2
			})
			if s.Totals.Failed+s.Totals.Expired != 0 {
				t.Errorf("the counts are %+v", s)
			}
			got := r.await(t, len(ids)+1)
			byUser, seen := map[string][]arrival{}, map[string]bool{}
			for _, a := range got {
				if seen[a.ID] {
					t.Errorf("%s came twice", a.ID)
				}
				seen[a.ID] = true
				byUser[a.User] = append(byUser[a.User], a)
			}
			for user, arrivals := range byUser {
				if n := violations(admittedAt(arrivals), crowdRules...); n != 0 {
					t.Errorf("%d violations for %s", n, user)
				}
			}
			for i, master := range cluster.Masters {
				if n, err := master.Client(t).DBSize(t.Context()).Result(); err != nil || n == 0 {
					t.Errorf("shard %d holds %d keys, %v", i, n, err)
				}
			}
			d.act(d.apps[0], http.StatusOK, ops.Action{Action: "cancel", ID: waits[2]})
			if snapshot := d.snapshot(d.apps[0]); snapshot.Deferred != 1 || len(snapshot.Crowds) != 1 {
				t.Errorf("the snapshot is %+v", snapshot)
			}
			if d.gauge(d.apps[0]) != 1 {
				t.Errorf("the gauge is %d", d.gauge(d.apps[0]))
			}
			// Another process may show its last look for a second.
			d.awaitSnapshot(d.apps[1], func(s ops.Snapshot) bool { return s.Deferred == 1 && len(s.Crowds) == 1 })
		})
	}
}

// A slot is moved to another shard while notifications of its partitions are accepted, wait and go out, and stays
// half-way for a while: whatever would have run on half of a partition is refused and tried again. Nothing is lost,
// sent twice or too early.
func TestRedisClusterSlotMoves(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3, false)
			d, r := onCluster(t, cluster, on), newReceiver(t)
			var items []item
			for i := range 30 {
				items = append(items, r.crowd("user-"+strconv.Itoa(i), "default", 60)...)
			}
			ids := d.bulk(items)
			r.await(t, len(ids)/4)
			for partition := range 4 {
				from, slot := cluster.Holder(t, dispatch.PartitionName(partition))
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

// A shard dies and nobody takes over: what belongs to the others goes on, and the counts say what they lack. When it
// comes back, empty, what belongs to it goes on, too.
func TestRedisClusterShardAway(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	d, r := onCluster(t, cluster, onPostgres), newReceiver(t)
	r.await(t, len(d.bulk(r.crowd("first", "default", 1)))) // the partitions are built by now
	dead, _ := cluster.Holder(t, dispatch.PartitionName(0))
	dead.Kill()
	var items []item
	elsewhere := 1
	for i := range 40 {
		user := "user-" + strconv.Itoa(i)
		items = append(items, r.crowd(user, "default", 1)...)
		if holder, _ := cluster.Holder(t, dispatch.PartitionName(dispatch.PartitionOf(user, 4))); holder != dead {
			elsewhere++
		}
	}
	ids := d.bulk(items)
	if elsewhere < 2 || elsewhere > len(ids) {
		t.Fatalf("%d of %d users are elsewhere: the test shows nothing", elsewhere, len(ids))
	}
	r.await(t, elsewhere)
	s := d.stats()
	if !s.Partial || s.Totals.Accepted == 0 {
		t.Errorf("the counts are %+v, want them to lack a shard", s)
	}
	dead.Restart()
	r.await(t, 1+len(ids))
}

// What users want is kept with their partitions, on all shards, and every process follows it: what one took in bulk
// holds in both, and what waits for it goes as soon as it is taken back.
func TestPreferencesOnRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	d, r := onCluster(t, cluster, onRedis), newReceiver(t)
	const users = 24
	until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	var batch strings.Builder
	var items []item
	for i := range users {
		user := "user" + strconv.Itoa(i)
		fmt.Fprintf(&batch, `{"user_id": %q, "quiet_until": %q}`+"\n", user, until)
		items = append(items, r.crowd(user, "default", 1)...)
	}
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	if status := d.call(http.MethodPost, "/v1/preferences/bulk", []byte(batch.String()), header, nil); status != http.StatusOK {
		t.Fatalf("bulk: status %d", status)
	}
	for i := range users {
		d.awaitKnownOf("user"+strconv.Itoa(i), false)
	}
	d.bulk(append(items, r.crowd("ada", "default", 1)...))
	d.awaitStats("all but one wait", func(s stats) bool { return s.Deferred == users && s.Totals.Delivered == 1 })
	for i := range users {
		path := "/v1/users/user" + strconv.Itoa(i) + "/preferences"
		if status := d.call(http.MethodDelete, path, nil, nil, nil); status != http.StatusNoContent {
			t.Fatalf("%s: status %d", path, status)
		}
	}
	if got := r.await(t, users+1); len(got) != users+1 {
		t.Errorf("%d came", len(got))
	}
	for i, master := range cluster.Masters { // four partitions lie on all three
		keys, err := master.Client(t).Keys(t.Context(), "*}:preferences:changes").Result()
		if err != nil || len(keys) == 0 {
			t.Errorf("shard %d holds the changes %v, %v", i, keys, err)
		}
	}
}
