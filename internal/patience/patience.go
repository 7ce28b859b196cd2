// Package patience bounds how long a caller waits for a store, whatever the store's driver does.
package patience

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Ask asks, and waits no longer than d. Then its error is a [context.DeadlineExceeded], or that of ctx. What is said
// later is dropped; asking ends with its own context, or with the driver's time-outs. A panic is an error.
func Ask[T any](ctx context.Context, d time.Duration, ask func(context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	said := make(chan reply, 1)
	go func() {
		defer cancel()
		var r reply
		defer func() {
			if p := recover(); p != nil { // it would end the process, not only what the caller does
				r.err = fmt.Errorf("asking panicked: %v\n%s", p, debug.Stack())
			}
			said <- r
		}()
		r.value, r.err = ask(ctx)
	}()
	select {
	case r := <-said:
		return r.value, r.err
	case <-ctx.Done():
		select {
		case r := <-said: // it ended ctx itself, by its reply
			return r.value, r.err
		default:
		}
		var none T
		return none, fmt.Errorf("no reply within %s: %w", time.Since(began).Round(time.Millisecond), ctx.Err())
	}
}
