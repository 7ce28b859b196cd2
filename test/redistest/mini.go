package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/embedded"
)

// Embedded returns a client of the Redis that the set-up without any server runs, one of the test's own.
func Embedded(tb testing.TB) *redis.Client {
	tb.Helper()
	in := embedded.Start(tb.Context())
	tb.Cleanup(func() {
		if err := in.Close(); err != nil {
			tb.Error(err)
		}
	})
	return in.Client()
}

// Mini returns a client of an in-process Redis that belongs to the test. It uses no socket, so it also works in a
// bubble of testing/synctest. Its TIME is that of package time, and keys expire by the same clock without a ticker:
// each command first looks at all keys, which is too slow for more than a few thousand of them.
func Mini(tb testing.TB) *redis.Client {
	tb.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	tb.Cleanup(m.Close)
	// The address is never dialled, but a name would be resolved.
	opt := options("127.0.0.1:1", 0)
	opt.Dialer = embedded.Dialer(m)
	return closing(tb, redis.NewClient(opt))
}
