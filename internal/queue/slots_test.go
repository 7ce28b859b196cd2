package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// slotOf is the cluster slot of a key: CRC16 (XMODEM) of its hash tag modulo 16384, from the specification of Redis
// Cluster.
func slotOf(key string) int {
	if _, tagged, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(tagged, "}"); closed && tag != "" {
			key = tag
		}
	}
	return int(crc16(key)) % 16384
}

func crc16(s string) uint16 {
	var crc uint16
	for _, b := range []byte(s) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// clusterNode is a cluster of one node, which refuses scripts over several slots like any other.
func clusterNode(t *testing.T) *redis.Client {
	t.Helper()
	conn := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	if err := conn.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster is up", func() bool {
		info, err := conn.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	return conn
}

// A user's agenda, windows and wake-up lie in one slot, so that one script may touch them all. Redis itself is asked.
func TestPartitionsHaveOneSlot(t *testing.T) {
	t.Parallel()
	if crc := crc16("123456789"); crc != 0x31c3 {
		t.Fatalf("the CRC of the check string is %#x, want 0x31c3", crc)
	}
	conn := clusterNode(t)
	const partitions = 64
	sharing := map[int][]int{}
	for number := range partitions {
		name := queue.PartitionName(number)
		slot := slotOf(name)
		sharing[slot] = append(sharing[slot], number)
		for _, key := range []string{
			"asynq:{" + name + "}:pending", "asynq:{" + name + "}:t:{other}", "pacer:{" + name + "}:w:chat:u-1",
			"pacer:{" + name + "}:w:{other}:{u}",
		} {
			redisSays, err := conn.ClusterKeySlot(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if int(redisSays) != slot || slotOf(key) != slot {
				t.Errorf("key %s is in slot %d (computed: %d), the partition's name in %d", key, redisSays, slotOf(key),
					slot)
			}
		}
	}
	if len(sharing) != partitions {
		t.Errorf("%d partitions share %d slots: %v", partitions, len(sharing), sharing)
	}
}

// Everything that the queue does works where scripts may not leave their slot, and each key of a partition is in the
// partition's.
func TestQueueOnCluster(t *testing.T) {
	t.Parallel()
	conn := clusterNode(t)
	const partitions = 4
	server := serve(t, conn, queue.ServerConfig{Partitions: partitions, Spread: true})
	reconcile(t, queue.NewClient(conn), partitions, 3)
	for number := range partitions {
		pushPending(t, conn, number, "done", "foreign")
		schedule(t, conn, number, "due", time.Now().Add(-time.Minute))
		schedule(t, conn, number, "later", time.Now().Add(time.Hour))
	}
	for number := range partitions {
		await(t, "what is due has come", func() bool { return len(look(t, conn, number).Pending) == 3 })
		want := where{Pending: []string{"done", "due", "foreign"}, Scheduled: []string{"later"}}
		if number != 3 {
			receive(t, "a signal", server.Pending(number))
			want = where{
				Active: []string{"due"}, Leased: []string{"due"}, Scheduled: []string{"later"},
				Archived: []string{"foreign"},
			}
			pull(t, conn, number, 9)
			finish(t, conn, number, "done")
			if err := server.Archive(t.Context(), number, dispatch.Task{ID: "foreign"}, redis.Nil); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(want, look(t, conn, number)); diff != "" {
			t.Errorf("partition %d holds (-want +got):\n%s", number, diff)
		}
	}
	if len(server.Pending(3)) > 0 {
		t.Error("the paused queue is told of")
	}
	found := map[int]bool{}
	for _, key := range conn.Keys(t.Context(), "asynq:{push-*").Val() {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, "asynq:{"), "}")
		number, err := queue.PartitionOfName(name)
		if err != nil {
			t.Errorf("key %s is of no partition: %v", key, err)
		}
		found[number] = true
		if slotOf(key) != slotOf(fmt.Sprintf("pacer:{push-%d}:c", number)) {
			t.Errorf("key %s lies elsewhere than the agendas of partition %d", key, number)
		}
	}
	if len(found) != partitions {
		t.Errorf("keys of partitions %v were found, want of %d", found, partitions)
	}
}
