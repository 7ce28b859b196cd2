package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqServer runs asynq's own server over all partitions. It never gets a task, since the scripts of the agendas take
// the wake-ups. It shows this process in asynq's tools, recovers tasks of dead processes that nobody else recovered,
// and cleans up.
type asynqServer struct{ server *asynq.Server }

// never is longer than any process runs. It switches off asynq's forwarder, since the watcher forwards.
const never = 10 * 365 * 24 * time.Hour

// cleanEvery is how often each queue is cleared of completed tasks whose retention has passed. Wake-ups have none, so
// there are some only where another program used the queue; asynq's own default is 8 s.
const cleanEvery = time.Minute

func newAsynqServer(
	conn redis.UniversalClient, partitions, concurrency int, closing <-chan struct{}, log *slog.Logger,
) *asynqServer {
	queues := map[string]int{}
	for number := range partitions {
		queues[PartitionName(number)] = 1
	}
	return &asynqServer{asynq.NewServerFromRedisClient(noTasks{conn, closing}, asynq.Config{
		Concurrency:              concurrency,
		Queues:                   queues,
		TaskCheckInterval:        10 * time.Millisecond, // once closing, it sleeps for that before it ends
		DelayedTaskCheckInterval: never,
		JanitorInterval:          cleanEvery,
		RetryDelayFunc:           retryDelay,
		IsFailure:                func(error) bool { return false },
		Logger:                   &logger{log: log},
		LogLevel:                 asynq.WarnLevel,
	})}
}

func (s *asynqServer) start() error {
	return s.server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		return errors.New("asynq's server got a task; pacer's scripts should have taken it")
	}))
}

// stop may be called only after closing is closed: until then the server waits for a task.
func (s *asynqServer) stop() { s.server.Shutdown() }

func (s *asynqServer) ping() error { return s.server.Ping() }

// retryDelay is how long a recovered task waits: not at all, since it has already waited for its lease to end.
func retryDelay(int, error, *asynq.Task) time.Duration { return 0 }

// noTasks is a connection on which asynq's server never finds a task: each request for one waits until closing.
type noTasks struct {
	redis.UniversalClient
	closing <-chan struct{}
}

// EvalSha runs a cached script, unless it is the one with which asynq takes a task.
func (e noTasks) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	if len(keys) == 4 && strings.HasSuffix(keys[0], ":pending") && strings.HasSuffix(keys[1], ":paused") {
		<-e.closing
		nothing := redis.NewCmd(ctx)
		nothing.SetErr(redis.Nil)
		return nothing
	}
	return e.UniversalClient.EvalSha(ctx, sha, keys, args...)
}
