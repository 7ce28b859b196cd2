package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/internal/throttle/throttletest"
)

// The crowd: everything waits for one user, at most 20 a second and 10 ms apart.
const (
	crowdLimit = 20
	crowdPer   = time.Second
	crowdGap   = 10 * time.Millisecond

	crowdPolicy = `version: 1
categories:
  default: {limits: [{max: 20, per: 1s}], min_gap: 10ms}
`
	// crowdPatience ends the hand-written dispatcher's drain, which grows with the square of the crowd.
	crowdPatience = 150 * time.Second
)

func crowds(ctx context.Context, o options) ([]figure, error) {
	sizes, byHand := []int{200, 400, 800}, 200
	if o.smoke {
		sizes, byHand = []int{30}, 30
	}
	var figures []figure
	rules := []throttle.Rule{{Max: crowdLimit, Per: crowdPer}, {Max: 1, Per: crowdGap, Kind: throttle.KindGap}}
	for _, n := range sizes {
		optimum := throttletest.Drain(n, rules...)
		add := func(who, more, wanted string, pulls float64, took time.Duration) {
			figures = append(figures, figure{
				fmt.Sprintf("%d waiting of one user, %d per %s, %s apart: %s", n, crowdLimit, crowdPer, crowdGap, who),
				fmt.Sprintf("%s%.2f pulls per delivery, drained in %s%.1f s (optimum %.1f s)", more, pulls, more, took.Seconds(), optimum.Seconds()), wanted,
			})
		}
		pulls, took, err := pacerCrowd(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("crowd of %d: %w", n, err)
		}
		add("pacer", "", "≤ 1.05 pulls", pulls, took)
		if n != byHand {
			continue
		}
		pulls, took, err = handCrowd(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("crowd of %d by hand: %w", n, err)
		}
		more := ""
		if took >= crowdPatience {
			more = "more than "
		}
		add("hand-written, limiter call and retry after the time left", more, "", pulls, took)
	}
	return figures, nil
}

func pacerCrowd(ctx context.Context, n int) (pulls float64, took time.Duration, err error) {
	store, err := startRedis()
	if err != nil {
		return 0, 0, err
	}
	defer store.stop()
	p, err := startPacer(ctx, store.url, "", crowdPolicy)
	if err != nil {
		return 0, 0, err
	}
	if err := p.accept(ctx, n, func(i int) notification.Notification {
		one := oneEach(i)
		one.UserID = "ada"
		return one
	}); err != nil {
		return 0, 0, err
	}
	if err := p.Start(ctx); err != nil {
		return 0, 0, err
	}
	took, err = p.await(ctx, int64(n))
	if err == nil {
		counts, statsErr := p.Stats(ctx)
		err, pulls = statsErr, float64(counts.Totals.Pulls)/float64(n)
	}
	return pulls, took, errors.Join(err, p.stop())
}

// waitError carries how long a refused task has to wait.
type waitError time.Duration

// Error implements error.
func (w waitError) Error() string { return "wait " + time.Duration(w).String() }

// handCrowd is the dispatcher that one writes first: ask the limiter, and put the task back for the time left.
func handCrowd(ctx context.Context, n int) (pulls float64, took time.Duration, err error) {
	store, err := startRedis()
	if err != nil {
		return 0, 0, err
	}
	defer store.stop()
	queue := asynq.NewClientFromRedisClient(store.client)
	if err := spread(n, func(i int) error {
		_, err := queue.Enqueue(asynq.NewTask("bench", []byte(strconv.Itoa(i))), asynq.MaxRetry(1<<30))
		return err
	}); err != nil {
		return 0, 0, err
	}
	var pulled, delivered atomic.Int64
	finished := make(chan struct{})
	server := asynq.NewServerFromRedisClient(store.client, asynq.Config{
		Concurrency: 256, LogLevel: asynq.FatalLevel,
		DelayedTaskCheckInterval: 100 * time.Millisecond, TaskCheckInterval: 20 * time.Millisecond,
		IsFailure: func(error) bool { return false },
		RetryDelayFunc: func(_ int, err error, _ *asynq.Task) time.Duration {
			if w, ok := errors.AsType[waitError](err); ok {
				return time.Duration(w)
			}
			return time.Second
		},
	})
	start := time.Now()
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		pulled.Add(1)
		wait, err := askClassic(ctx, store.client, "ada", string(task.Payload()), crowdLimit, crowdPer, crowdGap)
		if err != nil {
			return err
		}
		if wait > 0 {
			return waitError(wait)
		}
		if delivered.Add(1) == int64(n) {
			close(finished)
		}
		return nil
	})); err != nil {
		return 0, 0, err
	}
	defer server.Shutdown()
	select {
	case <-finished:
	case <-time.After(crowdPatience):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	return float64(pulled.Load()) / float64(max(1, delivered.Load())), time.Since(start), nil
}
