package redistest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// patience is how long a client waits for a reply where no context ends sooner. A late reply means a busy machine, and
// to give up would only ask it twice.
const patience = 2 * time.Minute

// options are the client settings for tests: contexts bound each command, a refused connection is reported at once,
// and the client asks the server for nothing that the test did not.
func options(addr string, db int) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		DB:                       db,
		ContextTimeoutEnabled:    true,
		ReadTimeout:              patience,
		WriteTimeout:             patience,
		DialerRetries:            1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// newClient returns a client that is closed when the test ends.
func newClient(tb testing.TB, addr string, db int) *redis.Client {
	tb.Helper()
	return closing(tb, redis.NewClient(options(addr, db)))
}

// closing has the client closed when the test ends. A test may close it earlier.
func closing(tb testing.TB, c *redis.Client) *redis.Client {
	tb.Helper()
	tb.Cleanup(func() { _ = c.Close() }) // The only error is that it is closed already.
	return c
}
