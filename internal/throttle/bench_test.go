package throttle_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// BenchmarkAllow decides for many users at once, each within their limits: on Redis with one round trip each, on Redis
// with the pipeline that the program uses, and in memory. Figures beside other limiters come from the bench module.
func BenchmarkAllow(b *testing.B) {
	for _, algorithm := range algorithms {
		client := redistest.Client(b)
		pipe, err := client.AutoPipelineWithOptions(redis.DefaultBlockingAutoPipelineOptions())
		check(b, err)
		for name, limiter := range map[string]throttle.Limiter{
			"Redis":     throttle.NewRedis(client, prefix),
			"Pipelined": throttle.NewRedis(pipe, prefix),
			"Memory":    throttle.NewMemory(time.Now),
		} {
			b.Run(algorithm.String()+"/"+name, func(b *testing.B) { benchmarkAllow(b, limiter, algorithm) })
		}
	}
}

func benchmarkAllow(b *testing.B, limiter throttle.Limiter, algorithm throttle.Algorithm) {
	b.Helper()
	plan := throttle.Plan{
		Algorithm: algorithm,
		Rules:     []throttle.Rule{{Max: 1_000_000, Per: time.Second}, {Max: 1_000_000, Per: time.Minute}},
	}
	var asked atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(25)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := asked.Add(1)
			key := throttle.Key{User: strconv.FormatInt(n%1000, 10), Category: "chat"}
			d, err := limiter.Allow(context.Background(), key, plan, strconv.FormatInt(n, 10))
			if err != nil || !d.Allowed {
				b.Fatalf("%+v, %v", d, err)
			}
		}
	})
}
