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

// waitingPolicy lets 100,000 notifications of one user wait in category crowd, whose window 200 fill.
const waitingPolicy = growthPolicy + "  crowd: {limits: [{max: 200, per: 200m}], max_defer: 90d}\n"

// deferredOfUsers measures the memory of notifications that wait for few users and for many, whose windows are full: by
// used_memory of a server that nobody else talks to, and by kind of key.
func deferredOfUsers(t *testing.T) [][]string {
	rows := [][]string{{
		"users", "deferred of each", "memory each, all keys", "notification", "backlog", "agenda",
		"asynq's task", "indexes of the partitions", "Redis's table of keys",
	}}
	for _, row := range []struct {
		users, each int
		category    string
		fill        int
	}{
		{users: 1, each: 100_000, category: "crowd", fill: 200},
		{users: 1_000, each: 100, category: "default", fill: 1},
		{users: 100_000, each: 10, category: "default", fill: 1},
		{users: 100_000, each: 1, category: "default", fill: 1},
	} {
		n := row.users * row.each
		toEach := func(i int) notification.Notification {
			return of(fmt.Sprint("user-", i%row.users), row.category)
		}
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

// idle is how many bytes the server uses when nothing changes any more: no other client is connected, and its tables of
// keys have been moved into larger ones where they had grown.
func (s *server) idle(t *testing.T) int64 {
	t.Helper()
	for _, command := range [][]any{{"SLOWLOG", "RESET"}, {"MEMORY", "PURGE"}} {
		if err := s.client.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var samples []int64
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		samples = append(samples, s.memory(t))
		if last := samples[max(0, len(samples)-5):]; len(last) == 5 && slices.Max(last)-slices.Min(last) < 4096 {
			return slices.Min(last)
		}
	}
	t.Fatalf("the memory of the server keeps changing: %v", samples)
	return 0
}

// kindsOfKeys are the keys that a deferred notification needs. The windows are not among them: they exist before.
var kindsOfKeys = []*regexp.Regexp{
	regexp.MustCompile(`^pacer:\{push-\d+\}:n:`), // its own
	regexp.MustCompile(`^pacer:\{push-\d+\}:w:`), // its backlog's
	regexp.MustCompile(`^pacer:\{push-\d+\}:a:`), // its user's agenda
	regexp.MustCompile(`^asynq:\{push-\d+\}:t:`), // the task of its user's wake-up
	regexp.MustCompile(`.`),                      // the partitions'
}

// sampled says which keys of a kind are measured where there are many: each 20th.
const sampled = 20

// kinds is how many bytes the keys of each kind take, as Redis says for each key, or for a sample of many.
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
