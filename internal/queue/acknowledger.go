package queue

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// acknowledger is the connection that asynq's servers see. It does two things that asynq does not:
//
// It mends a fault of asynq 0.25 and 0.26 from outside: an acknowledgement that fails once is tried again with a context
// that is already cancelled, so it is never repaired and the task runs a second time. Scripts (every step of asynq is one)
// run on a context that isn't cancelled; the client's read time-out bounds them instead. A test against the pinned version
// shows the fault and will tell when asynq mends it.
//
// And it sends what many goroutines do at once, the acknowledgements, over a connection that puts them into one pipeline,
// while the dequeue loops, each alone, keep connections of their own.
type acknowledger struct {
	redis.UniversalClient
	pipe redis.UniversalClient
}

// EvalSha runs a cached script.
func (a acknowledger) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return a.route(keys).EvalSha(context.WithoutCancel(ctx), sha, keys, args...)
}

// Eval runs a script that is not cached yet.
func (a acknowledger) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return a.route(keys).Eval(context.WithoutCancel(ctx), script, keys, args...)
}

// route tells the dequeue script, whose first key is a queue's list of pending tasks, from all others.
func (a acknowledger) route(keys []string) redis.UniversalClient {
	if len(keys) > 0 && strings.HasSuffix(keys[0], ":pending") {
		return a.UniversalClient
	}
	return a.pipe
}
