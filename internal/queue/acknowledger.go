package queue

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// acknowledger is the connection that asynq's servers see. It mends a fault of asynq 0.25 and 0.26 from outside: an
// acknowledgement that fails once is tried again with a context that is already cancelled, so it is never repaired and the
// task runs a second time. Scripts (every step of asynq is one) run on a context that isn't cancelled; the client's read
// time-out bounds them instead. A test against the pinned version shows the fault and will tell when asynq mends it.
type acknowledger struct{ redis.UniversalClient }

// EvalSha runs a cached script.
func (a acknowledger) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	return a.UniversalClient.EvalSha(context.WithoutCancel(ctx), sha, keys, args...)
}

// Eval runs a script that is not cached yet.
func (a acknowledger) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return a.UniversalClient.Eval(context.WithoutCancel(ctx), script, keys, args...)
}
