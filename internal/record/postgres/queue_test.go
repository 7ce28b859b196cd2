package postgres_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	pacerqueue "github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/record/recordtest"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// drain works the queue until n have been delivered.
func (w *world) drain(t *testing.T, n int) []string {
	t.Helper()
	delivered := make(chan string, 2*n)
	asked := make(chan int, 1)
	asked <- 0
	server := pacerqueue.NewServer(w.redis, pacerqueue.ServerConfig{Lanes: recordtest.Lanes, PullCount: mailbox.PullCount})
	if err := server.Start(func(ctx context.Context, tick dispatch.Tick) error {
		number := <-asked
		asked <- number + 1
		answer, err := w.record.Take(ctx, dispatch.Question{Tick: tick, Nonce: fmt.Sprint("drain ", number), Pulled: true})
		if err != nil || answer.Grant == nil {
			return err
		}
		_, err = w.record.Settle(ctx, answer.Grant, dispatch.Outcome{Fate: dispatch.Delivered, Reason: "delivered"})
		delivered <- answer.Grant.Notification.ID
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	all := map[string]bool{}
	patience := time.After(time.Minute)
	for len(all) < n {
		select {
		case id := <-delivered:
			if all[id] {
				t.Errorf("%s is delivered twice", id)
			}
			all[id] = true
		case <-patience:
			t.Fatalf("%d of %d were delivered", len(all), n)
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// A rebuild brings everything back although what it stood on was lost in part: a list of asynq's, or every second key.
func TestRebuildMendsTheQueue(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(key string) bool{
		"PendingLists": func(key string) bool { return strings.HasPrefix(key, "asynq:") && strings.HasSuffix(key, ":pending") },
		"TaskHashes":   func(key string) bool { return strings.Contains(key, "}:t:") && strings.HasPrefix(key, "asynq:") },
		"EverySecondKey": func(key string) bool {
			h := fnv.New32a()
			_, _ = h.Write([]byte(key)) // never fails
			return h.Sum32()%2 == 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, redistest.Client(t), mailbox.Config{MaxCrashes: 1000, Lease: recordtest.Lease})
			const users, each = 10, 20
			for user := range users {
				w.enqueue(t, w.accept(t, fmt.Sprintf("user%d", user), "free", each)...)
			}
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
			if diff := cmp.Diff([]string{}, w.differences(t)); diff != "" {
				t.Errorf("after the rebuild differences differ (-want +got):\n%s", diff)
			}
			w.drain(t, users*each)
		})
	}
}

// A rebuild leaves of a queue what people put there: that it is paused, and tasks put aside.
func TestRebuildLeavesPausesAndArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	tick := w.accept(t, "ada", "free", 1)[0]
	w.enqueue(t, tick)
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
	want := []string{"asynq:queues", queued + "paused", queued + "pending", queued + "processed", queued + "t:" + tick.ID, queued + "t:foreign"}
	slices.Sort(want)
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("keys differ (-want +got):\n%s", diff)
	}
}
