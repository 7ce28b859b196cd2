package agenda_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// A deferred notification of the growth measurement costs no more than this many bytes of Redis, all keys counted.
const bytesPerDeferred = 500

func TestMemoryPerDeferred(t *testing.T) {
	t.Parallel()
	const waiting = 1_000
	// As the Redis store encodes the notifications of the growth measurement.
	const payload = `{"c":"log","h":"hello","b":"something has happened","p":3}`
	for _, users := range []int{1, 10} {
		t.Run(fmt.Sprint(users), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 10 * time.Minute}}}, MaxDefer: 24000 * time.Hour})
			w.accept(agenda.Entry{ID: "first", UserID: "warm"}) // what there is once
			w.serve()
			w.settle(delivered)
			before := w.usedMemory()
			for i := range waiting + users { // one of each goes at once
				id, err := uuid.NewV7()
				if err != nil {
					t.Fatal(err)
				}
				user := fmt.Sprint("user-", i%users)
				e := agenda.Entry{ID: id.String(), UserID: user, Category: "default", Priority: notification.PriorityNormal, Payload: payload}
				if _, err := w.store.Accept(t.Context(), dispatch.LaneOf(user, partitions), []agenda.Entry{e}); err != nil {
					t.Fatal(err)
				}
			}
			w.serve()
			if total := w.total(); total.Deferred != waiting {
				t.Fatalf("%d are deferred", total.Deferred)
			}
			each := float64(w.usedMemory()-before) / waiting
			t.Logf("%.0f bytes for each of %d deferred of %d users", each, waiting, users)
			if each > bytesPerDeferred {
				t.Errorf("%.0f bytes for each of %d deferred, want at most %d", each, waiting, bytesPerDeferred)
			}
		})
	}
}

// tableShare is what a key takes of Redis's table of keys at most, while that is half full.
const tableShare = 16

// usedMemory is what all keys of the world's server take, each with its name, as Redis tells it. What the whole server takes
// tells more: the buffers of clients, say, and its log of slow commands.
func (w *world) usedMemory() int64 {
	w.t.Helper()
	ctx := w.test.Context()
	pipe := w.client.Pipeline()
	var sizes []*redis.IntCmd
	for _, key := range w.client.Keys(ctx, "*").Val() {
		sizes = append(sizes, pipe.MemoryUsage(ctx, key, 0))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		w.t.Fatalf("read the memory: %v", err)
	}
	sum := int64(0)
	for _, size := range sizes {
		sum += size.Val() + tableShare
	}
	return sum
}
