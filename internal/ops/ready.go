package ops

import (
	"context"
	"errors"
	"time"
)

// briefly is how long a store is waited for whose answer is only reported: who asks for readiness does not wait long.
const briefly = 500 * time.Millisecond

// Readiness is whether a process can take what its roles promise, for whoever sends it traffic.
type Readiness struct {
	// Reason why it is not ready; empty when it is.
	Reason string
	// Stores tells of each store in a line: its name, and whether it answers.
	Stores []string
}

// ReadyCheck tells whether a process can take what its roles promise.
//
// Whoever asks takes traffic away from a process that is not ready. So one with the API is ready while it can accept:
// in the set-ups with Postgres that needs Postgres alone, since what is accepted waits there until Redis is back. A
// worker takes no traffic; it is ready when it can deliver, for which it needs every store, so that a roll-out stops at
// the first worker that does not reach one.
type ReadyCheck struct {
	// Redis and Postgres ask the store for a sign of life; Postgres is nil without Postgres.
	Redis, Postgres func(context.Context) error
	// API tells whether the process has the API.
	API bool
	// Draining tells whether the process has begun to stop.
	Draining func() bool
}

// Ready asks every store at the same time.
func (c ReadyCheck) Ready(ctx context.Context) Readiness {
	needsRedis := c.Postgres == nil || !c.API
	redisCtx := ctx
	if !needsRedis {
		bounded, cancel := context.WithTimeout(ctx, briefly)
		defer cancel()
		redisCtx = bounded
	}
	redis := answerOf(redisCtx, c.Redis)
	var postgres <-chan error
	if c.Postgres != nil {
		postgres = answerOf(ctx, c.Postgres)
	}
	readiness := Readiness{}
	readiness.look("Redis", redis, needsRedis)
	if postgres != nil {
		readiness.look("Postgres", postgres, true)
	}
	if c.Draining() {
		readiness.Reason = "not ready: draining"
	}
	return readiness
}

// look waits for a store's answer and notes it.
func (r *Readiness) look(name string, answer <-chan error, needed bool) {
	err := <-answer
	state := ": answers"
	switch {
	case err != nil && needed:
		state = ": does not answer"
		r.Reason = "not ready: " + name + " does not answer"
	case err != nil:
		state = ": does not answer; accepted notifications wait in Postgres until it does"
	}
	r.Stores = append(r.Stores, name+state)
}

// errNoAnswer says that a store did not answer in time.
var errNoAnswer = errors.New("no answer in time")

// answerOf asks a store and waits no longer than ctx, whatever the store's driver does.
func answerOf(ctx context.Context, ask func(context.Context) error) <-chan error {
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
