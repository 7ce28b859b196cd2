package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// keeper is a server of asynq's over all partitions that works no task itself: it tells asynq's tools of this process,
// takes back what a dead process had at work, if nobody has done so before, and clears away. Wake-ups are taken beside
// it, by the scripts of the agendas.
type keeper struct{ server *asynq.Server }

// never is longer than any process runs: what this package does itself, asynq need not.
const never = 10 * 365 * 24 * time.Hour

func newKeeper(conn redis.UniversalClient, partitions, concurrency int, closing <-chan struct{},
	log *slog.Logger,
) *keeper {
	queues := map[string]int{}
	for number := range partitions {
		queues[dispatch.PartitionName(number)] = 1
	}
	return &keeper{asynq.NewServerFromRedisClient(emptyHanded{conn, closing}, asynq.Config{
		Concurrency:              concurrency,
		Queues:                   queues,
		TaskCheckInterval:        10 * time.Millisecond, // once closing, it sleeps for that before it ends
		DelayedTaskCheckInterval: never,
		RetryDelayFunc:           retryDelay,
		IsFailure:                func(error) bool { return false },
		Logger:                   &logger{log: log},
		LogLevel:                 asynq.WarnLevel,
	})}
}

func (k *keeper) start() error {
	return k.server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return errors.New("asynq was given a task, which nobody gives it")
	}))
}

// stop may be called only when closing is closed: its server waits for a task until then.
func (k *keeper) stop() { k.server.Shutdown() }

func (k *keeper) ping() error { return k.server.Ping() }

// retryDelay is how long what a dead process had at work waits to come again: it has waited for its lease to end.
func retryDelay(int, error, *asynq.Task) time.Duration { return 0 }

// emptyHanded is a connection on which nothing is ever there to be worked: asynq asks for a task and waits until
// closing.
type emptyHanded struct {
	redis.UniversalClient
	closing <-chan struct{}
}

// EvalSha runs a cached script, unless it is the one with which asynq takes a task.
func (e emptyHanded) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[1], ":paused") {
		<-e.closing
		nothing := redis.NewCmd(ctx)
		nothing.SetErr(redis.Nil)
		return nothing
	}
	return e.UniversalClient.EvalSha(ctx, sha, keys, args...)
}
