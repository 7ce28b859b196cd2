package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
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
	if err := client.Rest(t.Context(), 0, true); err != nil {
		t.Fatal(err)
	}
	enqueue(t, conn, tickIn(0, "rests"), tickIn(1, "goes"))
	if got := receive(t, "the tick of the other lane", begun); got != "goes" {
		t.Errorf("%s came", got)
	}
	<-time.After(200 * time.Millisecond)
	if w := look(t, conn, 0); !slices.Equal(w.Pending, []string{"rests"}) {
		t.Errorf("the paused lane holds %+v", w)
	}
	if err := client.Rest(t.Context(), 0, false); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "the tick that rested", begun); got != "rests" {
		t.Errorf("%s came", got)
	}
}
