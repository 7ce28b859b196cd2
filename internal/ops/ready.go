package ops

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// slowReply is from when on a store's reply counts as slow, where something that was asked of it took too long.
const slowReply = 300 * time.Millisecond

// briefly is how long a readiness check waits for a store that the process can do without.
const briefly = 500 * time.Millisecond

// Readiness is whether a process can do the work of its roles.
type Readiness struct {
	// Reason is why it is not ready; empty when it is.
	Reason string
	// Stores has a line for each store: its name, and whether it responds. Away names those that do not, and Slow
	// describes those that take long.
	Stores, Away, Slow []string
}

// ReadyCheck reports whether a process can do the work of its roles.
//
// A load balancer takes traffic away from a process that is not ready. So a process with the API is ready while it can
// accept. With Postgres it needs only Postgres for that: what is accepted waits there until Redis is back. A worker
// gets no traffic. It is ready when it can deliver, which needs every store; so a roll-out stops at the first worker
// that cannot reach one.
type ReadyCheck struct {
	// Redis and Postgres ping the stores; Postgres is nil without Postgres.
	Redis, Postgres func(context.Context) error
	// API reports whether the process has the API.
	API bool
	// Draining reports whether the process has begun to stop.
	Draining func() bool
}

// Ready asks all stores at the same time.
func (c ReadyCheck) Ready(ctx context.Context) Readiness {
	needsRedis := c.Postgres == nil || !c.API
	redisCtx, asked := ctx, time.Now()
	if !needsRedis {
		bounded, cancel := context.WithTimeout(ctx, briefly)
		defer cancel()
		redisCtx = bounded
	}
	redis := ping(redisCtx, c.Redis)
	var postgres <-chan error
	if c.Postgres != nil {
		postgres = ping(ctx, c.Postgres)
	}
	readiness := Readiness{}
	readiness.add("Redis", redis, needsRedis, asked)
	if postgres != nil {
		readiness.add("Postgres", postgres, true, asked)
	}
	if c.Draining() {
		readiness.Reason = "not ready: this process is draining: it finishes the deliveries in flight, then stops"
	}
	return readiness
}

// add waits for a store's response and adds a line about the store.
func (r *Readiness) add(name string, response <-chan error, needed bool, asked time.Time) {
	err := <-response
	switch took := time.Since(asked); {
	case err != nil:
		r.Away = append(r.Away, name)
	case took >= slowReply:
		r.Slow = append(r.Slow, isSlow(name, took))
	}
	state := ": responds"
	switch {
	case err != nil && needed:
		state = ": does not respond"
		r.Reason = "not ready: " + name + " does not respond"
	case err != nil:
		state = ": does not respond; accepted notifications wait in Postgres until it does"
	}
	r.Stores = append(r.Stores, name+state)
}

// isSlow says that a store takes long to respond.
func isSlow(name string, took time.Duration) string {
	return fmt.Sprintf("%s is slow: a reply takes %.1f s", name, took.Seconds())
}

// errNoResponse says that a store did not respond in time.
var errNoResponse = errors.New("no response in time")

// ping asks a store and waits no longer than ctx, whatever the store's driver does.
func ping(ctx context.Context, ask func(context.Context) error) <-chan error {
	asked, response := make(chan error, 1), make(chan error, 1)
	go func() { asked <- ask(ctx) }() // ends with the driver's own time-outs
	go func() {
		select {
		case err := <-asked:
			response <- err
		case <-ctx.Done():
			response <- errNoResponse
		}
	}()
	return response
}
