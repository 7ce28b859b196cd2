// Package patience bounds how long a caller waits for a store, whatever the store's driver does.
package patience

import (
	"context"
	"fmt"
	"time"
)

// Ask asks, and waits no longer than d. Then its error is a [context.DeadlineExceeded], or that of ctx. What is said
// later is dropped; asking ends with its own context, or with the driver's time-outs.
func Ask[T any](ctx context.Context, d time.Duration, ask func(context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	said := make(chan reply, 1)
	go func() {
		defer cancel()
		value, err := ask(ctx)
		said <- reply{value, err}
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
		return none, fmt.Errorf("no reply within %s: %w", d, ctx.Err())
	}
}
