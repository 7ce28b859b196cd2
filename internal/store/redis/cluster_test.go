package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What reads all servers of a cluster needs no lock, and finds what each of them holds.
func TestAllServersOfAClusterAreRead(t *testing.T) {
	t.Parallel()
	const users, partitions, page = 400, 12, 10
	agendas, store := clusterStore(t, partitions)
	began := throttle.MicrosOf(time.Now().Add(-time.Minute))
	until := throttle.MicrosOf(time.Now().Add(time.Minute))

	acceptForEach(t, store, "delivered", users)
	for partition := range partitions {
		deliverAll(t, store, partition)
	}
	admissions := 0
	if err := store.Admissions(t.Context(), began, until, func(string) time.Duration { return time.Hour },
		func(invariant.Admission) error { admissions++; return nil }); err != nil || admissions != users {
		t.Errorf("found %d admissions, %v; want %d", admissions, err, users)
	}

	acceptForEach(t, store, "open", users)
	open := map[string]bool{}
	if err := store.EachOpen(t.Context(), until.Time(), func(o invariant.Open) error {
		open[o.ID] = true
		return nil
	}); err != nil || len(open) != users {
		t.Errorf("found %d that have not ended, %v; want %d", len(open), err, users)
	}
	waiting := map[string]bool{}
	if err := maintenance.Of(agendas).EachWaiting(t.Context(), page, func(some []maintenance.Waiting) error {
		for _, one := range some {
			waiting[one.ID] = true
		}
		return nil
	}); err != nil || len(waiting) != users {
		t.Errorf("found %d that wait, %v; want %d", len(waiting), err, users)
	}
}

// A shard that stands still keeps back the changes of its own users, and of no others.
func TestAShardThatStandsStillKeepsBackItsOwnPreferences(t *testing.T) {
	t.Parallel()
	const users, partitions = 48, 12
	cluster := redistest.StartCluster(t, 3, false)
	agendas, store := storeOn(t, cluster, partitions)
	away := map[int]bool{}
	for partition := range partitions {
		holder, _ := cluster.Holder(t, queue.PartitionName(partition))
		away[partition] = holder == cluster.Masters[1]
	}
	there := 0
	for i := range users {
		user := "user" + strconv.Itoa(i)
		if err := store.OptOut(t.Context(), user, "free"); err != nil {
			t.Fatal(err)
		}
		if !away[agendas.PartitionOf(user)] {
			there++
		}
	}
	cluster.Masters[1].Freeze()
	defer cluster.Masters[1].Thaw()
	read := 0
	for partition, page := range store.ChangedPreferences(t.Context(), make([]int64, partitions), users) {
		if (page.Err != nil) != away[partition] {
			t.Errorf("partition %d, of the shard that stands still: %t: %v", partition, away[partition], page.Err)
		}
		for _, c := range page.Changes {
			if len(c.OptOutCategories) == 1 {
				read++
			}
		}
	}
	if read != there {
		t.Errorf("%d changes were read, want %d", read, there)
	}
}

// A notification is found and cancelled by its id whatever shard stands still, unless it is its own. Of an id that is
// not on the others, nobody can tell then.
func TestAShardThatStandsStillHidesNoNotificationOfOthers(t *testing.T) {
	t.Parallel()
	const users, partitions = 12, 12
	cluster := redistest.StartCluster(t, 3, false)
	agendas, store := storeOn(t, cluster, partitions)
	acceptForEach(t, store, "of", users)
	var there []string
	for i := range users {
		name := queue.PartitionName(agendas.PartitionOf("user" + strconv.Itoa(i)))
		if holder, _ := cluster.Holder(t, name); holder != cluster.Masters[1] {
			there = append(there, "of"+strconv.Itoa(i))
		}
	}
	if len(there) == 0 || len(there) == users {
		t.Fatalf("%d of %d users are on the other shards", len(there), users)
	}
	if _, err := store.View(t.Context(), "unknown"); !errors.Is(err, notification.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
	cluster.Masters[1].Freeze()
	defer cluster.Masters[1].Thaw()
	for _, id := range there {
		if v, err := store.View(t.Context(), id); err != nil || v.ID != id {
			t.Errorf("look up %s: %v", id, err)
		}
		if err := store.Cancel(t.Context(), id); err != nil {
			t.Errorf("cancel %s: %v", id, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := store.View(ctx, "unknown"); err == nil || errors.Is(err, notification.ErrNotFound) {
		t.Errorf("while a shard stands still, an unknown one: %v", err)
	}
}

func clusterStore(t *testing.T, partitions int) (*agenda.Agendas, *redis.Store) {
	t.Helper()
	return storeOn(t, redistest.StartCluster(t, 3, false), partitions)
}

// storeOn is a store on a cluster.
func storeOn(t *testing.T, cluster *redistest.Cluster, partitions int) (*agenda.Agendas, *redis.Store) {
	t.Helper()
	var addresses []string
	for _, server := range cluster.Masters {
		addresses = append(addresses, server.Addr())
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addresses})
	t.Cleanup(func() { _ = client.Close() })
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: partitions, Settings: storetest.Settings, Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return agendas, redis.New(client, agendas)
}

// acceptForEach accepts a notification for each of many users.
func acceptForEach(t *testing.T, store *redis.Store, name string, users int) {
	t.Helper()
	batch := make([]*notification.Notification, users)
	for i := range batch {
		batch[i] = &notification.Notification{
			ID: name + strconv.Itoa(i), UserID: "user" + strconv.Itoa(i), Category: "free",
			Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		}
	}
	if _, err := store.Accept(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// deliverAll delivers what is due in a partition.
func deliverAll(t *testing.T, store *redis.Store, partition int) {
	t.Helper()
	for round := 0; ; round++ {
		take := func(r dispatch.TakeRequest) dispatch.TakeResult {
			t.Helper()
			r.Partition = partition
			result, err := store.Take(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return result
		}
		pulled := take(dispatch.TakeRequest{ID: fmt.Sprint("pull", round), Pull: 100}).Pulled
		if len(pulled) == 0 {
			return
		}
		for _, of := range take(dispatch.TakeRequest{
			ID: fmt.Sprint("serve", round), Wakeups: pulled, Capacity: len(pulled),
		}).Results {
			for _, g := range of.Grants {
				delivered := dispatch.Outcome{Disposition: dispatch.Delivered}
				if _, err := store.Settle(t.Context(), g, delivered); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
