package throttle_test

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/pacer-notify/pacer/internal/embedded"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/throttle/throttletest"
	"github.com/pacer-notify/pacer/test/redistest"
)

var algorithms = throttle.Algorithms()

// refusals is how many refused attempts are made to see that they are free; make chaos makes 100,000.
var refusals = flag.Int("refusals", 5_000, "refuse so many attempts on Redis and in memory")

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		for name, engine := range map[string]struct {
			subject  func(tb testing.TB) throttletest.Subject
			features throttletest.Features
		}{
			"Redis":     {subject: redisSubject, features: throttletest.Features{Refusals: *refusals}},
			"Miniredis": {subject: miniSubject, features: throttletest.Features{Refusals: 500, RelativeExpiry: true}},
			"Memory":    {subject: memorySubject, features: throttletest.Features{Refusals: *refusals}},
		} {
			t.Run(algorithm.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				engine.features.Algorithm = algorithm
				throttletest.Run(t, engine.features, engine.subject)
			})
		}
	}
}

func prefix(string) string { return "{test}:" }

// memorySubject is the limiter in memory.
func memorySubject(testing.TB) throttletest.Subject {
	var now atomic.Int64
	clock := func() time.Time { return throttle.Micros(now.Load()).Time() }
	m := throttle.NewMemory(clock)
	return throttletest.Subject{
		Limiter:  m,
		SetClock: func(at throttle.Micros) { now.Store(int64(at)) },
		Stored: func() []throttletest.Stored {
			var stored []throttletest.Stored
			for _, c := range m.Cells(throttle.Micros(now.Load())) {
				stored = append(stored, throttletest.Stored{Name: c.Name, Entries: c.Entries, Expires: c.Expires})
			}
			return sorted(stored)
		},
	}
}

// redisSubject is the limiter on a real Redis, on a virtual clock.
func redisSubject(tb testing.TB) throttletest.Subject {
	tb.Helper()
	client := redistest.Client(tb)
	// What many callers ask at once goes in one pipeline, as in the program.
	options := redis.DefaultBlockingAutoPipelineOptions()
	options.FullDuplex = true
	pipe, err := client.AutoPipelineWithOptions(options)
	check(tb, err)
	var now atomic.Int64
	return throttletest.Subject{
		Limiter: throttle.NewRedisOnVirtualClock(pipe, prefix),
		SetClock: func(at throttle.Micros) {
			now.Store(int64(at))
			check(tb, client.Set(tb.Context(), "virtual:now", int64(at), 0).Err())
		},
		Stored: func() []throttletest.Stored {
			expiry, err := client.HGetAll(tb.Context(), "virtual:ttl").Result()
			check(tb, err)
			return stored(tb, client, func(key string) throttle.Micros {
				last, err := strconv.ParseInt(expiry[key], 10, 64)
				if err != nil {
					return 0
				}
				return throttle.Micros(1000 * (last + 1))
			}, func(expires throttle.Micros) bool { return expires > 0 && int64(expires) <= now.Load() })
		},
	}
}

// miniSubject is the limiter on miniredis, whose clock can be set.
func miniSubject(tb testing.TB) throttletest.Subject {
	tb.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	tb.Cleanup(m.Close)
	client := redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:1",
		Dialer:                   embedded.Dialer(m),
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { check(tb, client.Close()) })
	var now atomic.Int64
	return throttletest.Subject{
		Limiter: throttle.NewRedis(client, prefix),
		SetClock: func(at throttle.Micros) {
			now.Store(int64(at))
			m.SetTime(at.Time())
		},
		Stored: func() []throttletest.Stored {
			return stored(tb, client, func(key string) throttle.Micros {
				left, err := client.PTTL(tb.Context(), key).Result()
				check(tb, err)
				if left <= 0 {
					return 0
				}
				return throttle.Micros(now.Load()).Add(left)
			}, func(throttle.Micros) bool { return false })
		},
	}
}

// stored lists the limiter's keys in a database.
func stored(tb testing.TB, client *redis.Client, expiry func(key string) throttle.Micros,
	gone func(throttle.Micros) bool,
) []throttletest.Stored {
	tb.Helper()
	keys, err := client.Keys(tb.Context(), "{test}:*").Result()
	check(tb, err)
	var stored []throttletest.Stored
	for _, key := range keys {
		entry := throttletest.Stored{Name: key, Expires: expiry(key)}
		if gone(entry.Expires) {
			continue
		}
		kind, err := client.Type(tb.Context(), key).Result()
		check(tb, err)
		if kind == "zset" {
			// what lies below says how deep the log is
			n, err := client.ZCount(tb.Context(), key, "(0", "+inf").Result()
			check(tb, err)
			entry.Entries = int(n)
		}
		stored = append(stored, entry)
	}
	return sorted(stored)
}

func sorted(stored []throttletest.Stored) []throttletest.Stored {
	slices.SortFunc(stored, func(a, b throttletest.Stored) int { return strings.Compare(a.Name, b.Name) })
	return stored
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
