package postgres_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/agenda"
	pacerqueue "github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A rebuild restores everything when a part of Redis was lost: one of asynq's lists, or every second key.
func TestRebuildRestoresTheQueue(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(key string) bool{
		"PendingLists": func(key string) bool {
			return strings.HasPrefix(key,
				"asynq:") && strings.HasSuffix(key, ":pending")
		},
		"TaskHashes": func(key string) bool {
			return strings.Contains(key,
				"}:t:") && strings.HasPrefix(key, "asynq:")
		},
		"EverySecondKey": func(key string) bool {
			h := fnv.New32a()
			_, _ = h.Write([]byte(key)) // never fails
			return h.Sum32()%2 == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, redistest.Client(t), agenda.Config{MaxCrashes: 1000})
			const users, each = 10, 20
			for user := range users {
				w.accept(t, fmt.Sprintf("user%d", user), "free", each)
			}
			w.pull(t, 0) // the wake-ups of one partition are at work
			keys, err := w.redis.Keys(t.Context(), "*{push-*").Result()
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				if lost(key) {
					if err := w.redis.Del(t.Context(), key).Err(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := w.relay.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.wantDifferences(t)
			delivered := w.deliverAll(t)
			slices.Sort(delivered)
			if n := len(slices.Compact(slices.Clone(delivered))); n != users*each || len(delivered) != n {
				t.Errorf("%d were delivered, %d of them different, want %d", len(delivered), n, users*each)
			}
		})
	}
}

// A rebuild keeps what people did to a queue: its pause, and the tasks that they archived.
func TestRebuildLeavesPausesAndArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 1)
	if err := pacerqueue.NewClient(w.redis).Announce(t.Context(), storetest.Partitions); err != nil {
		t.Fatal(err)
	}
	queued := strings.Replace(w.prefix(), "pacer:", "asynq:", 1)
	pipe := w.redis.Pipeline()
	pipe.Set(t.Context(), queued+"paused", "1", 0)
	pipe.HSet(t.Context(), queued+"t:foreign", "state", "archived", "msg", "x")
	pipe.HSet(t.Context(), queued+"t:orphan", "state", "pending", "msg", "x")
	pipe.Set(t.Context(), queued+"processed", "7", 0)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.relay.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := w.redis.Keys(t.Context(), "asynq:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	want := []string{
		"asynq:queues", queued + "paused", queued + "pending", queued + "processed", queued + "t:ada",
		queued + "t:foreign",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys differ (-want +got):\n%s", diff)
	}
}
