package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// lose makes Redis lose all of a partition, or everything with a negative number. Only worlds whose store is in
// Postgres survive that.
func (w *world) lose(partition int) {
	if !w.Durable {
		return
	}
	w.count("redis loses state")
	w.losses++
	if partition < 0 {
		w.story("Redis loses everything")
		w.redis.identity++
	} else {
		w.story(fmt.Sprintf("Redis loses partition %d", partition))
	}
	tag := "{push-" + strconv.Itoa(partition) + "}"
	w.redis.outside.do(func() {
		w.redis.mu.Lock()
		defer w.redis.mu.Unlock()
		ctx := context.Background()
		keys, err := w.redis.client.Keys(ctx, "*").Result()
		if err != nil {
			return // the steps tell
		}
		for _, key := range keys {
			if key != clockKey && (partition < 0 || strings.Contains(key, tag)) {
				w.redis.client.Del(ctx, key)
			}
		}
	})
}

// eviction is when Redis lost some keys of a partition.
type eviction struct {
	at        time.Time
	partition int
}

// forgotten reports whether an eviction may have removed an earlier admission from the limiter's logs before a later
// one was decided. An evicted log looks like one whose windows have passed, so until the rebuild limits don't hold.
func (w *world) forgotten(earlier, later *delivery) bool {
	partition := dispatch.PartitionOf(w.ledger.entries[later.id].User, partitions)
	return slices.ContainsFunc(w.evictions, func(e eviction) bool {
		rebuilt := w.rebuiltAt.After(e.at) && !w.rebuiltAt.After(later.granted)
		return e.partition == partition && !earlier.granted.After(e.at) && !later.at.Before(e.at) && !rebuilt
	})
}

// evict makes Redis lose every second key of a partition and of its queue, but not those by which it would be known.
// Operators are told to rebuild then.
func (w *world) evict(partition int) {
	if !w.Durable {
		return
	}
	w.count("redis evicts keys")
	w.losses++
	w.evictions = append(w.evictions, eviction{time.Now(), partition})
	w.story(fmt.Sprintf("Redis loses every second key of partition %d", partition))
	tag := "{push-" + strconv.Itoa(partition) + "}"
	w.peek(func(ctx context.Context, client *redis.Client) {
		keys, _ := client.Keys(ctx, "*"+tag+"*").Result() // the end tells
		slices.Sort(keys)
		for i, key := range keys {
			if i%2 == 0 && !strings.HasSuffix(key, ":epoch") && !strings.HasSuffix(key, ":rebuild") {
				client.Del(ctx, key)
			}
		}
	})
}

// unqueue makes Redis lose what asynq keeps of a partition: everything, or what has that name (of tasks, t). Nobody is
// told: the agendas stand, and the sweeper finds whose wake-up is gone.
func (w *world) unqueue(partition int, name string) {
	w.count("redis loses tasks")
	prefix := "asynq:{push-" + strconv.Itoa(partition) + "}:"
	w.story(fmt.Sprintf("Redis loses %s%s of asynq's", prefix, name))
	w.peek(func(ctx context.Context, client *redis.Client) {
		keys, _ := client.Keys(ctx, prefix+"*").Result() // the end tells
		for _, key := range keys {
			part := strings.TrimPrefix(key, prefix)
			if kind, _, _ := strings.Cut(part, ":"); part != "paused" && (name == "" || kind == name) {
				client.Del(ctx, key)
			}
		}
	})
}

// expire removes the notifications whose time to live has ended.
func (w *world) expire() {
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	w.redis.outside.do(func() {
		w.redis.mu.Lock()
		defer w.redis.mu.Unlock()
		ctx := context.Background()
		keys, err := w.redis.client.ZRangeArgs(ctx, redis.ZRangeArgs{
			Key: expiryKey, ByScore: true, Start: "-inf", Stop: now,
		}).Result()
		if err != nil || len(keys) == 0 {
			return
		}
		for _, key := range keys {
			// One that was made again since lives for ever.
			if state := w.redis.client.HGet(ctx, key, "s").Val(); state == strings.ToUpper(state) {
				w.redis.client.Del(ctx, key)
			}
			w.redis.client.ZRem(ctx, expiryKey, key)
		}
	})
}
