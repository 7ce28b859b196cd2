package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/processtest"
)

// policy is what dispatching and accepting are measured under: two rules are checked for each notification, and neither
// defers it.
const policy = `version: 1
categories:
  default: {limits: [{max: 100, per: 1m}], min_gap: 1ms}
`

// pacer is a process with all roles, as `dispatcher serve` runs it.
type pacer struct {
	*app.App
	stop func() error
}

// startPacer starts no workers. It keeps the store in the database, or in Redis when that is empty.
func startPacer(
	ctx context.Context, redisURL, databaseURL, policyText string, change ...func(*settings.Resolved),
) (*pacer, error) {
	where, err := settings.ParseRedisURL(redisURL)
	if err != nil {
		return nil, err
	}
	dir, err := processtest.NewDir("bench")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir.Path, "policy.yaml")
	if err := os.WriteFile(file, []byte(policyText), 0o600); err != nil {
		return nil, err
	}
	setup := settings.SetupRedis
	if databaseURL != "" {
		setup = settings.SetupDurable
	}
	cfg := &settings.Resolved{
		Setup: setup, Redis: where, DatabaseURL: databaseURL,
		Roles:  []settings.Role{settings.RoleAPI, settings.RoleWorker, settings.RoleOps},
		Listen: "127.0.0.1:0", OpsListen: "127.0.0.1:0", Policy: file,
		Concurrency: 256, Partitions: 16, DrainTimeout: 20 * time.Second,
	}
	for _, c := range change {
		c(cfg)
	}
	process, err := app.New(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &pacer{process, func() error { return errors.Join(process.Stop(ctx), dir.Remove()) }}, nil
}

// accept accepts n notifications, in batches of 1,000.
func (p *pacer) accept(ctx context.Context, n int, nth func(i int) notification.Notification) error {
	for from := 0; from < n; from += 1000 {
		batch := make([]intake.Request, min(1000, n-from))
		for i := range batch {
			batch[i].Notification = nth(from + i)
		}
		results, err := p.Intake().Accept(ctx, batch)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Err != nil {
				return r.Err
			}
		}
	}
	return nil
}

// await waits until n were delivered and returns how long that took. A second attempt of any is an error.
func (p *pacer) await(ctx context.Context, n int64) (time.Duration, error) {
	start := time.Now()
	for {
		counts, err := p.Stats(ctx)
		delivered, attempts := counts.Totals.Delivered, counts.Totals.Attempts
		switch {
		case err != nil:
			return 0, err
		case delivered == n && attempts == n:
			return time.Since(start), nil
		case delivered > n || attempts > n:
			return 0, fmt.Errorf("%d delivered in %d attempts, want %d", delivered, attempts, n)
		}
		// Counting costs the servers too, so whoever has waited for long looks less often.
		<-time.After(max(10*time.Millisecond, time.Since(start)/100))
	}
}

// oneEach is one notification of each user.
func oneEach(i int) notification.Notification {
	return notification.Notification{
		UserID: "user-" + strconv.Itoa(i), Channel: notification.ChannelLog, Title: "hello", Body: strconv.Itoa(i),
	}
}

func pacerDispatch(ctx context.Context, o options) (sample, error) {
	return dispatchAll(ctx, o.n, oneEach)
}

// dispatchAll accepts everything before the workers start.
func dispatchAll(
	ctx context.Context, n int, nth func(i int) notification.Notification, change ...func(*settings.Resolved),
) (sample, error) {
	return withPacer(ctx, func(p *pacer, m *meter) (sample, error) {
		if err := p.accept(ctx, n, nth); err != nil {
			return sample{}, err
		}
		return m.run(ctx, n, func() error { return p.deliver(ctx, n) })
	}, change...)
}

// withPacer runs do on a process whose store is a Redis server of its own. The process's workers are not started.
func withPacer(
	ctx context.Context, do func(*pacer, *meter) (sample, error), change ...func(*settings.Resolved),
) (sample, error) {
	return withRedis(func(redis *server, m *meter) (sample, error) {
		p, err := startPacer(ctx, redis.url, "", policy, change...)
		if err != nil {
			return sample{}, err
		}
		measured, err := do(p, m)
		return measured, errors.Join(err, p.stop())
	})
}

// deliver starts the workers, and waits until n were delivered.
func (p *pacer) deliver(ctx context.Context, n int) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	_, err := p.await(ctx, int64(n))
	return err
}

// pacerAccept accepts one of each user while no workers run.
func pacerAccept(ctx context.Context, o options) (sample, error) {
	return withPacer(ctx, func(p *pacer, m *meter) (sample, error) {
		return m.run(ctx, o.n, func() error { return p.accept(ctx, o.n, oneEach) })
	})
}

// callers is how many goroutines ask a limiter, or enqueue, at once.
const callers = 50

// spread calls do for each of n numbers, from many goroutines.
func spread(n int, do func(i int) error) error {
	var all sync.WaitGroup
	var once sync.Once
	var failed error
	for c := range callers {
		all.Go(func() {
			for i := c; i < n; i += callers {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	all.Wait()
	return failed
}

// decisionsOf is how many decisions a limiter is asked for: they are quick, and a short run measures its beginning.
func decisionsOf(o options) int { return 4 * o.n }

func pacerLimiter(ctx context.Context, o options) (sample, error) {
	plan := throttle.Plan{Rules: []throttle.Rule{
		{Max: 10, Per: time.Minute},
		{Max: 1, Per: time.Millisecond, Kind: throttle.KindGap},
	}}
	return withRedis(func(redis *server, m *meter) (sample, error) {
		limiter := throttle.NewRedis(redis.client, func(string) string { return "bench:" })
		return m.run(ctx, decisionsOf(o), func() error {
			return spread(decisionsOf(o), func(i int) error {
				key := throttle.Key{User: "user-" + strconv.Itoa(i%1000), Category: "c"}
				_, err := limiter.Allow(ctx, key, plan, strconv.Itoa(i))
				return err
			})
		})
	})
}
