package presence_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/test/redistest"
)

// missing returns how many processes are told to be gone.
func missing(t *testing.T, client redis.UniversalClient) int {
	t.Helper()
	gone, err := presence.Missing(t.Context(), client, list(t, client))
	if err != nil {
		t.Fatal(err)
	}
	return len(gone)
}

// A process that was away for a moment, and stops as it should long after, is not told to have died.
func TestWhoCameBackAndStoppedIsNotGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		a := presence.NewAnnouncer(conn, "host", nil, idle, quiet)
		announce(t, a)
		<-time.After(11 * time.Second)
		if n := missing(t, conn); n != 1 {
			t.Errorf("while it is away, %d are gone, want 1", n)
		}
		stop := run(t.Context(), a)
		synctest.Wait()
		if n := missing(t, conn); n != 0 {
			t.Errorf("once it is back, %d are gone, want none", n)
		}
		stop()
		if n := missing(t, conn); n != 0 {
			t.Errorf("after it has stopped, %d are gone, want none", n)
		}
	})
}

// between calls do once, before a client reads the entries of the processes that it has listed.
type between struct{ do func() }

func (b *between) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if do := b.do; cmd.Name() == "mget" && do != nil {
			b.do = nil
			do()
		}
		return next(ctx, cmd)
	}
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A process that stops while others are about to read its entry is not told to have died.
func TestWhoStopsWhileItIsLookedForIsNotGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := redistest.Mini(t)
		stop := run(t.Context(), presence.NewAnnouncer(conn, "host", nil, idle, quiet))
		synctest.Wait()
		conn.AddHook(&between{stop})
		if n := missing(t, conn); n != 0 {
			t.Errorf("%d are gone, want none", n)
		}
	})
}
