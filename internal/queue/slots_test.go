package queue_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// slotOf is the cluster slot of a key: CRC16 (XMODEM) of its hash tag modulo 16384, from the specification of Redis Cluster.
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

// A user's mailbox, windows and tasks lie in one slot, so that one script may touch them all. Redis itself is asked.
func TestLanesHaveOneSlot(t *testing.T) {
	t.Parallel()
	if crc := crc16("123456789"); crc != 0x31c3 {
		t.Fatalf("the CRC of the check string is %#x, want 0x31c3", crc)
	}
	conn := clusterNode(t)
	const lanes = 64
	lanesOf := map[int][]int{}
	for lane := range lanes {
		slot := slotOf(dispatch.LaneName(lane))
		lanesOf[slot] = append(lanesOf[slot], lane)
		for _, key := range []string{
			"asynq:{" + dispatch.LaneName(lane) + "}:pending", "asynq:{" + dispatch.LaneName(lane) + "}:t:{other}",
			mailbox.LanePrefix(lane) + "w:chat:u-1", mailbox.LanePrefix(lane) + "w:{other}:{u}",
		} {
			redisSays, err := conn.ClusterKeySlot(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if int(redisSays) != slot || slotOf(key) != slot {
				t.Errorf("key %s is in slot %d (computed: %d), the lane's name in %d", key, redisSays, slotOf(key), slot)
			}
		}
	}
	if len(lanesOf) != lanes {
		t.Errorf("%d lanes share %d slots: %v", lanes, len(lanesOf), lanesOf)
	}
}

func TestOneScriptTouchesTasksAndMailbox(t *testing.T) {
	t.Parallel()
	conn := clusterNode(t)
	enqueue(t, conn, tickIn(3, "n-1"))
	script := redis.NewScript(`return redis.call("LLEN", KEYS[1]) + redis.call("EXISTS", KEYS[2])`)
	tasks := "asynq:{" + dispatch.LaneName(3) + "}:pending"
	if n, err := script.Run(t.Context(), conn, []string{tasks, mailbox.LanePrefix(3) + "x"}).Int(); err != nil || n != 1 {
		t.Errorf("over one lane the script gives %d (%v), want 1", n, err)
	}
	if err := script.Run(t.Context(), conn, []string{tasks, mailbox.LanePrefix(4) + "x"}).Err(); !redis.HasErrorPrefix(err, "CROSSSLOT") {
		t.Errorf("over two lanes it gives %v, want it refused", err)
	}
}

// Everything that the queue does works where scripts may not leave their slot, and each key of a lane is in the lane's.
func TestQueueOnCluster(t *testing.T) {
	t.Parallel()
	conn := clusterNode(t)
	const lanes = 4
	client := queue.NewClient(conn)
	want := map[int]where{}
	for lane := range lanes {
		id := strconv.Itoa(lane)
		enqueue(t, conn, tickIn(lane, "done-"+id), tickIn(lane, "deferred-"+id), tickIn(lane, "failed-"+id))
		if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tickIn(lane, "later-"+id), After: time.Hour}); err != nil {
			t.Fatal(err)
		}
		want[lane] = where{Scheduled: []string{"later-" + id}, Retry: []string{"deferred-" + id, "failed-" + id}}
	}
	serve(t, conn, queue.ServerConfig{Lanes: lanes}, func(_ context.Context, tick dispatch.Tick) error {
		switch kind, _, _ := strings.Cut(tick.ID, "-"); kind {
		case "deferred":
			return &dispatch.DeferralError{Until: time.Now().Add(time.Hour)}
		case "failed":
			return errors.New("the record is away")
		}
		return nil
	})
	for lane := range lanes {
		await(t, "the lane has been worked", func() bool { return cmp.Equal(look(t, conn, lane), want[lane]) })
	}
	keys, err := conn.Keys(t.Context(), "asynq:{*}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	for _, key := range keys {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, "asynq:{"), "}")
		lane, err := dispatch.LaneOfName(name)
		if err != nil {
			continue // of a server, not of a lane
		}
		found[lane] = true
		if slotOf(key) != slotOf(mailbox.LanePrefix(lane)) {
			t.Errorf("key %s lies elsewhere than the mailboxes of lane %d", key, lane)
		}
	}
	if len(found) != lanes {
		t.Errorf("keys of lanes %v were found, want of %d lanes", found, lanes)
	}
}
