package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// dispatch enqueues n tasks and lets one asynq server with the handler work them off.
func dispatch(ctx context.Context, n int, handler func(client *redis.Client) asynq.HandlerFunc) (sample, error) {
	store, err := startRedis()
	if err != nil {
		return sample{}, err
	}
	defer store.stop()
	if err := enqueue(store, n); err != nil {
		return sample{}, err
	}
	work := handler(store.client)
	var done atomic.Int64
	finished := make(chan struct{})
	server := asynq.NewServerFromRedisClient(store.client, asynq.Config{Concurrency: 256, LogLevel: asynq.FatalLevel})
	m := &meter{redis: store}
	measured, err := m.run(ctx, n, func() error {
		if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			if err := work(ctx, task); err != nil {
				return err
			}
			if done.Add(1) == int64(n) {
				close(finished)
			}
			return nil
		})); err != nil {
			return err
		}
		select {
		case <-finished:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	server.Shutdown()
	return measured, err
}

// enqueue enqueues n tasks one by one, from many goroutines, as asynq has it.
func enqueue(store *server, n int) error {
	queue := asynq.NewClientFromRedisClient(store.client)
	return spread(n, func(i int) error {
		_, err := queue.Enqueue(asynq.NewTask("bench", []byte(strconv.Itoa(i))))
		return err
	})
}

func bareDispatch(ctx context.Context, o options) (sample, error) {
	return dispatch(ctx, o.n, func(*redis.Client) asynq.HandlerFunc {
		return func(context.Context, *asynq.Task) error { return nil }
	})
}

// classic is the rolling sorted set as everybody writes it: trim, count, add, on the caller's clock.
var classic = redis.NewScript(`
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
local newest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if newest and newest + ARGV[4] > tonumber(ARGV[1]) then return newest + ARGV[4] - ARGV[1] end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return oldest + ARGV[2] - ARGV[1] end
redis.call('ZADD', KEYS[1], ARGV[1], ARGV[5])
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] / 1000))
return 0
`)

// askClassic returns how long to wait; 0 means that it may go, and was counted.
func askClassic(
	ctx context.Context, client *redis.Client, user, id string, limit int, per, gap time.Duration,
) (time.Duration, error) {
	micros, err := classic.Run(ctx, client, []string{"limit:" + user},
		time.Now().UnixMicro(), per.Microseconds(), limit, gap.Microseconds(), id).Int64()
	return time.Duration(micros) * time.Microsecond, err
}

func handDispatch(ctx context.Context, o options) (sample, error) {
	return dispatch(ctx, o.n, func(client *redis.Client) asynq.HandlerFunc {
		return func(ctx context.Context, task *asynq.Task) error {
			id := string(task.Payload())
			_, err := askClassic(ctx, client, id, id, 100, time.Minute, time.Millisecond)
			return err
		}
	})
}

func redisRate(ctx context.Context, o options) (sample, error) {
	return withRedis(func(store *server, m *meter) (sample, error) {
		limiter := redis_rate.NewLimiter(store.client)
		return m.run(ctx, decisionsOf(o), func() error {
			return spread(decisionsOf(o), func(i int) error {
				_, err := limiter.Allow(ctx, "user-"+strconv.Itoa(i%1000), redis_rate.PerMinute(10))
				return err
			})
		})
	})
}

func asynqEnqueue(ctx context.Context, o options) (sample, error) {
	return withRedis(func(store *server, m *meter) (sample, error) {
		return m.run(ctx, o.n, func() error { return enqueue(store, o.n) })
	})
}
