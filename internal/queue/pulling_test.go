package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// counting is a connection that counts scripts by what their first key is.
type counting struct {
	redis.UniversalClient
	taken, acknowledged *atomic.Int64
}

func (c counting) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	switch {
	case len(args) == 2 && strings.HasSuffix(keys[0], "}:"):
		c.taken.Add(1)
	case len(args) > 2 && strings.HasSuffix(keys[0], "}:"):
		c.acknowledged.Add(1)
	}
	return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
}

// Many ticks are taken and acknowledged at once, and asynq's own counts are as if it had been one by one.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 640
	plain := redistest.Client(t)
	conn := counting{plain, &atomic.Int64{}, &atomic.Int64{}}
	var ticks []dispatch.Tick
	for i := range n {
		ticks = append(ticks, tickIn(0, fmt.Sprintf("n-%d", i)))
	}
	enqueue(t, plain, ticks...)
	var worked set
	serve(t, conn, queue.ServerConfig{Lanes: 1}, func(_ context.Context, tick dispatch.Tick) error {
		worked.add(tick.ID)
		return nil
	})
	await(t, "all are worked", func() bool { return worked.size() == n })
	await(t, "all are acknowledged", func() bool {
		info, err := asynq.NewInspectorFromRedisClient(conn).GetQueueInfo("push-0")
		return err == nil && info.Processed == n && info.ProcessedTotal == n && info.Size == 0 && info.Failed == 0
	})
	if taken := conn.taken.Load(); taken > n/8 {
		t.Errorf("%d scripts took %d ticks", taken, n)
	}
	if acknowledged := conn.acknowledged.Load(); acknowledged > n/4 {
		t.Errorf("%d scripts acknowledged %d ticks", acknowledged, n)
	}
}

// A lane in which nothing waited is looked at again, and a paused one rests.
func TestIdleAndPausedLanes(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	begun := make(chan string, 9)
	serve(t, conn, queue.ServerConfig{Lanes: 2}, func(_ context.Context, tick dispatch.Tick) error {
		begun <- tick.ID
		return nil
	})
	client := queue.NewClient(conn)
	for i := range 3 {
		<-time.After(50 * time.Millisecond) // it is idle by then
		id := fmt.Sprintf("n-%d", i)
		enqueue(t, conn, tickIn(i%2, id))
		if got := receive(t, "the tick", begun); got != id {
			t.Errorf("%s came, want %s", got, id)
		}
	}
	reconcile(t, client, 2, 0)
	enqueue(t, conn, tickIn(0, "rests"), tickIn(1, "goes"))
	if got := receive(t, "the tick of the other lane", begun); got != "goes" {
		t.Errorf("%s came", got)
	}
	<-time.After(200 * time.Millisecond)
	if w := look(t, conn, 0); !slices.Equal(w.Pending, []string{"rests"}) {
		t.Errorf("the paused lane holds %+v", w)
	}
	reconcile(t, client, 2)
	if got := receive(t, "the tick that rested", begun); got != "rests" {
		t.Errorf("%s came", got)
	}
}

// A process that had nothing to do for long looks less often, and yet finds at once what comes.
func TestLongIdleLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := looking{redistest.Mini(t), &atomic.Int64{}}
		begun := make(chan time.Time, 9)
		server := queue.NewServer(conn, queue.ServerConfig{Lanes: 4, Log: slog.New(slog.DiscardHandler)})
		err := server.Start(func(context.Context, dispatch.Tick) error {
			begun <- time.Now()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		<-time.After(10 * time.Second)
		before := conn.looks.Load()
		<-time.After(10 * time.Second)
		if looks := conn.looks.Load() - before; looks > 300 || looks < 200 {
			t.Errorf("it looked %d times in 10 s, want 25 times a second", looks)
		}
		for range 3 {
			at := time.Now()
			enqueue(t, conn, tickIn(2, "n-1"))
			if waited := (<-begun).Sub(at); waited > 100*time.Millisecond {
				t.Errorf("a tick waited for %s", waited)
			}
			<-time.After(10 * time.Second)
		}
	})
}

// looking counts the looks for something to do.
type looking struct {
	redis.UniversalClient
	looks *atomic.Int64
}

func (l looking) Exists(ctx context.Context, keys ...string) *redis.IntCmd {
	l.looks.Add(1)
	return l.UniversalClient.Exists(ctx, keys...)
}

// Every task that is taken off a lane is counted, whatever its handler makes of it: also of a category that rests, and of
// what is no tick.
func TestPullsAreCounted(t *testing.T) {
	t.Parallel()
	conn := redistest.Client(t)
	const n = 20
	for i := range n {
		enqueue(t, conn, tickIn(0, fmt.Sprintf("n-%d", i)))
	}
	foreign := asynq.NewTask("email:deliver", nil)
	if _, err := asynq.NewClientFromRedisClient(conn).Enqueue(foreign, asynq.Queue("push-0"), asynq.TaskID("foreign")); err != nil {
		t.Fatal(err)
	}
	var rested set
	handled := make(chan error, 3*n)
	serve(t, conn, queue.ServerConfig{Lanes: 1, PullCount: func(lane int) (string, string) {
		return fmt.Sprintf("pacer:{push-%d}:c", lane), "pulls"
	}}, func(_ context.Context, tick dispatch.Tick) (err error) {
		defer func() { handled <- err }()
		if before := rested.size(); before < n/2 {
			rested.add(tick.ID)
			return &dispatch.DeferralError{Until: time.Now()}
		}
		return nil
	})
	pulls := 1 // the foreign one
	for done := 0; done < n; pulls++ {
		if receive(t, "a tick", handled) == nil {
			done++
		}
	}
	if got, err := conn.HGet(t.Context(), "pacer:{push-0}:c", "pulls").Int(); err != nil || got != pulls {
		t.Errorf("%d pulls are counted, %v; want %d", got, err, pulls)
	}
}
