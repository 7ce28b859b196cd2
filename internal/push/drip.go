package push

import (
	"context"
	"sync/atomic"
)

// dripKey is where the context of a call holds whether the response dripped.
type dripKey struct{}

// WatchDrip returns a context for a call, and what tells after the call whether the response was not read to its end.
// Such a response is one, but earns the host nothing: a host that does so on purpose would hold ever more calls.
func WatchDrip(ctx context.Context) (context.Context, func() bool) {
	dripped := new(atomic.Bool)
	return context.WithValue(ctx, dripKey{}, dripped), dripped.Load
}

// Drips notes, for a sender, that the response to its call was not read to its end.
func Drips(ctx context.Context) {
	if dripped, ok := ctx.Value(dripKey{}).(*atomic.Bool); ok {
		dripped.Store(true)
	}
}
