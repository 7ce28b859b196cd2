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
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A deferred notification of the growth measurement costs no more than this many bytes of Redis, all keys counted. One
// that waits alone for its user bears all that the user needs: a backlog, an agenda, a wake-up with its task, and a
// place in each of the partition's indexes.
const (
	bytesPerDeferred      = 500
	bytesPerDeferredAlone = 1200
)

func TestMemoryPerDeferred(t *testing.T) {
	t.Parallel()
	const waiting = 1_000
	for users, most := range map[int]float64{
		1: bytesPerDeferred, 10: bytesPerDeferred, waiting: bytesPerDeferredAlone,
	} {
		t.Run(fmt.Sprint(users), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Start(t).Client(t), agenda.Settings{
				Plan:     throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: 10 * time.Minute}}},
				MaxDefer: 24000 * time.Hour,
			})
			w.acceptForUsers(users, users) // which fills their windows
			w.serve()
			for len(w.grants) > 0 {
				w.settle(delivered)
			}
			before := w.usedMemory()
			w.acceptForUsers(waiting, users)
			w.serve()
			if total := w.total(); total.Deferred != waiting {
				t.Fatalf("%d are deferred", total.Deferred)
			}
			each := float64(w.usedMemory()-before) / waiting
			t.Logf("%.0f bytes for each of %d deferred of %d users", each, waiting, users)
			if each > most {
				t.Errorf("%.0f bytes for each of %d deferred, want at most %.0f", each, waiting, most)
			}
		})
	}
}

// acceptForUsers accepts n of so many users in turn, as the Redis store encodes the notifications of the growth
// measurement.
func (w *world) acceptForUsers(n, users int) {
	w.t.Helper()
	const payload = `{"c":"log","h":"hello","b":"something has happened","p":3}`
	for i := range n {
		id, err := uuid.NewV7()
		if err != nil {
			w.t.Fatalf("make an id: %v", err)
		}
		user := fmt.Sprint("user-", i%users)
		e := agenda.Entry{
			ID: id.String(), UserID: user, Category: "default", Priority: notification.PriorityNormal, Payload: payload,
		}
		partition := dispatch.PartitionOf(user, partitions)
		if _, err := w.store.Accept(w.test.Context(), partition, []agenda.Entry{e}); err != nil {
			w.t.Fatalf("accept: %v", err)
		}
	}
}

// tableShare is what a key takes of Redis's table of keys at most, while that is half full.
const tableShare = 16

// usedMemory is what all keys of the world's server take, each with its name, as Redis tells it. What the whole server
// takes tells more: the buffers of clients, say, and its log of slow commands.
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
