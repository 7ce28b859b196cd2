//go:build growth

package main

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/notification"
)

// waitingPolicy lets 100,000 of one user wait in category crowd, which 200 fill.
const waitingPolicy = growthPolicy + "  crowd: {limits: [{max: 200, per: 200m}], max_defer: 90d}\n"

// deferredOfUsers has notifications wait for few users and for many, whose windows are full, and tells what that takes: by
// used_memory of a server that nobody else talks to, and by key.
func deferredOfUsers(t *testing.T) [][]string {
	rows := [][]string{{"users", "deferred of each", "memory each, all keys", "notification", "backlog", "agenda", "asynq's task", "indexes of the partitions", "Redis's table of keys"}}
	for _, row := range []struct {
		users, each int
		category    string
		fill        int
	}{{1, 100_000, "crowd", 200}, {1_000, 100, "default", 1}, {100_000, 10, "default", 1}, {100_000, 1, "default", 1}} {
		n := row.users * row.each
		toEach := func(i int) notification.Notification { return of(fmt.Sprint("user-", i%row.users), row.category) }
		store, p := begin(t, waitingPolicy)
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		measure(t, store, p, toEach, row.users*row.fill)
		end(t, p)
		before, kindsBefore := store.idle(t), store.kinds(t)

		p, err := startPacer(t.Context(), store.url, "", waitingPolicy)
		if err != nil {
			t.Fatal(err)
		}
		waits(t, p, n, n, toEach)
		end(t, p)
		all, shares := store.idle(t)-before, []string{fmt.Sprint(row.users), fmt.Sprint(row.each)}
		share := func(bytes int64) { shares = append(shares, fmt.Sprintf("%.0f B", float64(bytes)/float64(n))) }
		share(all)
		for kind, bytes := range store.kinds(t) {
			share(bytes - kindsBefore[kind])
			all -= bytes - kindsBefore[kind]
		}
		share(all)
		rows = append(rows, shares)
	}
	return rows
}

// idle is what the server has in use when it has come to rest: nobody is connected but who asks, and it has moved its tables
// of keys into those that they have grown to.
func (s *server) idle(t *testing.T) int64 {
	t.Helper()
	for _, command := range [][]any{{"SLOWLOG", "RESET"}, {"MEMORY", "PURGE"}} {
		if err := s.client.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var samples []int64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		samples = append(samples, s.memory(t))
		if last := samples[max(0, len(samples)-5):]; len(last) == 5 && slices.Max(last)-slices.Min(last) < 4096 {
			return slices.Min(last)
		}
	}
	t.Fatalf("the server does not come to rest: %v", samples)
	return 0
}

// The kinds of keys that a deferred notification needs: one of its own, of its backlog, its user, the user's task; all others are
// the partitions'. The windows are there before.
var kindsOfKeys = []*regexp.Regexp{
	regexp.MustCompile(`^pacer:\{push-\d+\}:n:`), regexp.MustCompile(`^pacer:\{push-\d+\}:w:`), regexp.MustCompile(`^pacer:\{push-\d+\}:a:`),
	regexp.MustCompile(`^asynq:\{push-\d+\}:t:`), regexp.MustCompile(`.`),
}

// sampled is every how many-th key of a kind is asked for its size, where there are many.
const sampled = 20

// kinds is what all keys of each kind take, as Redis tells it of every key, or of a sample of many.
func (s *server) kinds(t *testing.T) []int64 {
	t.Helper()
	keys := make([][]string, len(kindsOfKeys))
	for scan := s.client.Scan(t.Context(), 0, "*", 10_000).Iterator(); ; {
		if !scan.Next(t.Context()) {
			if err := scan.Err(); err != nil {
				t.Fatal(err)
			}
			break
		}
		kind := slices.IndexFunc(kindsOfKeys, func(r *regexp.Regexp) bool { return r.MatchString(scan.Val()) })
		keys[kind] = append(keys[kind], scan.Val())
	}
	bytes := make([]int64, len(kindsOfKeys))
	for kind, names := range keys {
		step := 1
		if kind < len(kindsOfKeys)-1 && len(names) > 1000 {
			step = sampled
		}
		pipe := s.client.Pipeline()
		var sizes []*redis.IntCmd
		for i := 0; i < len(names); i += step {
			sizes = append(sizes, pipe.MemoryUsage(t.Context(), names[i], 0))
		}
		if len(sizes) == 0 {
			continue
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, size := range sizes {
			bytes[kind] += size.Val()
		}
		bytes[kind] = bytes[kind] * int64(len(names)) / int64(len(sizes))
	}
	return bytes
}
