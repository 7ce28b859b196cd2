package app_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
)

// A policy that comes into force while Redis is away is published as soon as Redis is back.
func TestAPolicyIsPublishedThoughRedisWasAway(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	failing := &notPublishing{}
	process, err := app.Hooks{Hooks: deployment.Hooks{Redis: func(o *redis.UniversalOptions) redis.UniversalClient {
		client := redis.NewUniversalClient(o)
		client.AddHook(failing)
		return client
	}}}.New(t.Context(), d.settings(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	failing.left.Store(2)
	d.writePolicy(crowdPolicy + "# another\n")
	if err := process.ReloadPolicy(); err != nil {
		t.Fatal(err)
	}
	client := d.client()
	d.eventually("the new policy is published", func() bool {
		text, err := os.ReadFile(d.policy)
		return err == nil && client.Get(t.Context(), "pacer:policy").Val() == string(text)
	})
	if left := failing.left.Load(); left > 0 {
		t.Errorf("%d tries did not fail: Redis was never away", left)
	}
}

// notPublishing has a client fail to write the policy some times.
type notPublishing struct {
	redis.Hook

	left atomic.Int64
}

// DialHook implements [redis.Hook].
func (*notPublishing) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (*notPublishing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements [redis.Hook].
func (n *notPublishing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && strings.EqualFold(cmd.Name(), "set") && args[1] == "pacer:policy" &&
			n.left.Add(-1) >= 0 {
			err := errors.New("Redis is away")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}
