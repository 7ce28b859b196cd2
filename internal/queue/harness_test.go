package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
)

// patience bounds every wait of these tests; it is only reached when something is broken.
const patience = 20 * time.Second

// tickIn is a tick of a lane.
func tickIn(lane int, id string) dispatch.Tick {
	return dispatch.Tick{ID: id, Mailbox: dispatch.Mailbox{Lane: lane, UserID: "u-1", Category: "chat"}}
}

// serve runs a server until the test ends.
func serve(t *testing.T, conn redis.UniversalClient, cfg queue.ServerConfig, handle queue.Handler) *queue.Server {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	server := queue.NewServer(conn, cfg)
	if err := server.Start(handle); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// enqueue puts ticks into the queue, due at once.
func enqueue(t *testing.T, conn redis.UniversalClient, ticks ...dispatch.Tick) {
	t.Helper()
	client := queue.NewClient(conn)
	for _, tick := range ticks {
		if err := client.Enqueue(t.Context(), dispatch.Alarm{Tick: tick}); err != nil {
			t.Fatal(err)
		}
	}
}

// await waits until the condition holds; what says what is waited for.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting until %s", what)
		case <-ticker.C:
		}
	}
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	patience := time.NewTimer(patience)
	defer patience.Stop()
	select {
	case v := <-from:
		return v
	case <-patience.C:
		t.Fatalf("gave up waiting for %s", what)
		panic("unreachable")
	}
}

// where lists, by place, the names of a lane's ticks.
type where struct{ Pending, Active, Scheduled, Retry, Archived []string }

func look(t *testing.T, conn redis.UniversalClient, lane int) where {
	t.Helper()
	key := func(place string) string { return fmt.Sprintf("asynq:{push-%d}:%s", lane, place) }
	ctx := t.Context()
	pipe := conn.Pipeline()
	lists := []*redis.StringSliceCmd{
		pipe.LRange(ctx, key("pending"), 0, -1), pipe.LRange(ctx, key("active"), 0, -1),
		pipe.ZRange(ctx, key("scheduled"), 0, -1), pipe.ZRange(ctx, key("retry"), 0, -1), pipe.ZRange(ctx, key("archived"), 0, -1),
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	names := func(i int) []string {
		if len(lists[i].Val()) == 0 {
			return nil
		}
		return slices.Sorted(slices.Values(lists[i].Val()))
	}
	return where{names(0), names(1), names(2), names(3), names(4)}
}

// inspect gives what asynq itself says of a task. Handlers may call it too.
func inspect(t *testing.T, conn redis.UniversalClient, lane int, id string) *asynq.TaskInfo {
	t.Helper()
	info, err := asynq.NewInspectorFromRedisClient(conn).GetTaskInfo(dispatch.LaneName(lane), id)
	if err != nil {
		t.Errorf("inspect task %s: %v", id, err)
		return &asynq.TaskInfo{}
	}
	return info
}

// wantUncounted fails the test when asynq has counted a failure in the lane or archived something.
func wantUncounted(t *testing.T, conn redis.UniversalClient, lane int) {
	t.Helper()
	counted, err := conn.Keys(t.Context(), fmt.Sprintf("asynq:{push-%d}:failed*", lane)).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(counted) != 0 {
		t.Errorf("failures are counted in %v", counted)
	}
	if archived := look(t, conn, lane).Archived; archived != nil {
		t.Errorf("archived: %v", archived)
	}
}

// set is a set of names that goroutines fill.
type set struct {
	mu    sync.Mutex
	names map[string]int
}

func (s *set) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]int{}
	}
	s.names[name]++
}

func (s *set) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}

// sorted lists the names, and each as often as it was added.
func (s *set) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for name, n := range s.names {
		all = append(all, slices.Repeat([]string{name}, n)...)
	}
	slices.Sort(all)
	return all
}
