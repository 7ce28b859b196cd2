package deployment_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/deployment"
)

// While Redis is away the policy is published again and again, with pauses. The newest wins, and the log says each of
// both turns once.
func TestThePolicyIsPublishedOnceRedisIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var away atomic.Bool
		var current, published, tries atomic.Int64
		p := deployment.NewPublisher(func(context.Context) error {
			tries.Add(1)
			if away.Load() {
				return errors.New("away")
			}
			published.Store(current.Load())
			return nil
		}, func(context.Context) error { return nil }, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		go p.Run(ctx)
		change := func(to int64) {
			current.Store(to)
			p.Changed()
			synctest.Wait()
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		if change(1); published.Load() != 1 || log.Len() > 0 {
			t.Errorf("published is %d, and the log says %s", published.Load(), &log)
		}
		away.Store(true)
		change(2)
		change(3)
		pass(time.Hour)
		if n := tries.Load(); n < 100 || n > 200 {
			t.Errorf("tried %d times in an hour, want every half minute", n)
		}
		away.Store(false)
		pass(time.Minute)
		if published.Load() != 3 {
			t.Errorf("published is %d, want 3", published.Load())
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Count(text, "level=INFO") != 1 ||
			strings.Count(text, "\n") != 2 {
			t.Errorf("the log says %s", text)
		}
		before := tries.Load()
		pass(time.Hour)
		if more := tries.Load() - before; more != 0 {
			t.Errorf("published again %d times although nothing has changed", more)
		}
		away.Store(true)
		change(4)
		cancel() // ends it while it waits
		synctest.Wait()
	})
}
