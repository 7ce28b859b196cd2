package app

import (
	"context"
	"errors"
	"time"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/settings"
)

// briefly is how long a store is waited for that only has to be told of: who asks for readiness does not wait long.
const briefly = 500 * time.Millisecond

// Ready tells whether the process can take what its roles promise.
//
// Whoever asks takes traffic away from a process that is not ready. So one with the API is ready while it can accept:
// in the set-ups with Postgres that needs Postgres alone, since what is accepted waits there until Redis is back. A
// worker takes no traffic; it is ready when it can deliver, for which it needs every store, so that a roll-out stops at
// the first worker that does not reach one.
func (a *App) Ready(ctx context.Context) ops.Readiness {
	needsRedis := a.pool == nil || !a.cfg.HasRole(settings.RoleAPI)
	redisCtx := ctx
	if !needsRedis {
		bounded, cancel := context.WithTimeout(ctx, briefly)
		defer cancel()
		redisCtx = bounded
	}
	redis := answers(redisCtx, func(ctx context.Context) error { return a.redis.client.Ping(ctx).Err() })
	var postgres <-chan error
	if a.pool != nil {
		postgres = answers(ctx, a.pool.Ping)
	}
	readiness := ops.Readiness{}
	look := func(name string, answer <-chan error, needed bool) {
		err := <-answer
		state := ": answers"
		switch {
		case err != nil && needed:
			state = ": does not answer"
			readiness.Reason = "not ready: " + name + " does not answer"
		case err != nil:
			state = ": does not answer; accepted notifications wait in Postgres until it does"
		}
		readiness.Stores = append(readiness.Stores, name+state)
	}
	look("Redis", redis, needsRedis)
	if postgres != nil {
		look("Postgres", postgres, true)
	}
	if a.draining.Load() {
		readiness.Reason = "not ready: draining"
	}
	return readiness
}

// errNoAnswer says that a store did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// answers asks a store and waits no longer than ctx, whatever the store's driver does.
func answers(ctx context.Context, ask func(context.Context) error) <-chan error {
	asked, answer := make(chan error, 1), make(chan error, 1)
	go func() { asked <- ask(ctx) }() // ends with the driver's own time-outs
	go func() {
		select {
		case err := <-asked:
			answer <- err
		case <-ctx.Done():
			answer <- errNoAnswer
		}
	}()
	return answer
}
