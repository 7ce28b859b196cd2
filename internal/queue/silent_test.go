package queue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/test/redistest"
)

// silent is a hook under which no command about a partition has a reply before its shard goes on, as if that stood
// still. The driver waits for as long as that takes, and for all commands of a pipeline.
type silent struct {
	about string
	goOn  chan struct{}
}

func (s silent) wait(commands ...redis.Cmder) {
	for _, command := range commands {
		for _, arg := range command.Args() {
			if text, ok := arg.(string); ok && strings.Contains(text, s.about) {
				<-s.goOn
			}
		}
	}
}

// DialHook implements [redis.Hook].
func (s silent) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (s silent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		s.wait(command)
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (s silent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		s.wait(commands...)
		return next(ctx, commands)
	}
}

// One shard of several stands still. The wake-ups of the others are forwarded and told of as ever, and asynq's tools
// learn the names of the queues.
func TestASilentShardConcernsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		shard := silent{about: "{push-0}", goOn: make(chan struct{})}
		conn.AddHook(shard)
		server := queue.NewServer(conn, queue.ServerConfig{
			Partitions: 3, Spread: true, Log: slog.New(slog.DiscardHandler),
		})
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // each loop has met the shard
		schedule(t, conn, 1, "u-1", time.Now().Add(time.Second))
		pushPending(t, conn, 2, "u-2")
		patience := time.After(time.Minute)
		for _, partition := range []int{2, 1} {
			select {
			case <-server.Pending(partition):
			case <-patience:
				t.Errorf("partition %d waits for the silent one", partition)
			}
		}
		if n := conn.SCard(t.Context(), "asynq:queues").Val(); n != 3 {
			t.Errorf("asynq's tools know %d queues, want 3", n)
		}
		close(shard.goOn)
		server.Stop()
	})
}
