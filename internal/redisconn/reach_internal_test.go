package redisconn

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"
)

// A Redis that can't be reached is refused with what went wrong, also when the last attempts only ran out of time.
func TestTheCauseIsToldThoughTimeRanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		ended := make(chan struct{})
		client := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", MaxRetries: -1, DialerRetries: 1,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if dials.Add(1) == 1 {
					return nil, errors.New("connection refused")
				}
				select {
				case <-ctx.Done():
				case <-ended: // the pool does not end a dial that nobody waits for
				}
				return nil, context.DeadlineExceeded
			},
		})
		err := check(t.Context(), client, "redis://127.0.0.1:6379")
		if want := "Redis at redis://127.0.0.1:6379 can't be reached (REDIS_URL): connection refused"; err == nil ||
			err.Error() != want {
			t.Errorf("it says %v, want %s", err, want)
		}
		close(ended)
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}
