package redis_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// readCount counts the notifications that are read.
type readCount struct{ hashes atomic.Int64 }

func (c *readCount) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *readCount) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c *readCount) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		for _, cmd := range cmds {
			c.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (c *readCount) count(cmd goredis.Cmder) {
	if cmd.Name() == "hgetall" || cmd.Name() == "hmget" {
		c.hashes.Add(1)
	}
}

// A list of one user's notifications, and a look for the user's latest, read what the user's partition keeps, and
// nothing of the others.
func TestAUsersListReadsOnePartition(t *testing.T) {
	t.Parallel()
	const partitions, users, each = 16, 320, 5
	client, reads := redistest.Client(t), &readCount{}
	agendas, err := agenda.New(client, agenda.Config{Partitions: partitions, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	beside, want := 0, []string{}
	for i := range users {
		user := fmt.Sprintf("user%d", i)
		var batch []*notification.Notification
		for k := range each {
			id := fmt.Sprintf("n%d-%d", i, k)
			batch = append(batch, &notification.Notification{
				ID: id, UserID: user, Category: "free", Channel: notification.ChannelLog,
				Priority: notification.PriorityNormal,
			})
			if i == 0 {
				want = append(want, id)
			}
		}
		if _, err := store.Accept(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if agendas.PartitionOf(user) == agendas.PartitionOf("user0") {
			beside += each
		}
	}
	client.AddHook(reads)
	var got []string
	for f := (notification.Filter{UserID: "user0", Limit: 2}); ; {
		page, err := store.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Items {
			got = append(got, page.Items[i].ID)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	// A step of the scan may come again for the next page, and a key twice while Redis makes its table larger.
	if n, most := reads.hashes.Swap(0), int64(4*beside); n > most {
		t.Errorf("%d of %d notifications were read, want at most %d: the partition has %d", n, users*each, most, beside)
	}
	if _, _, err := store.Latest(t.Context(), "user0", 10, nil); err != nil {
		t.Fatal(err)
	}
	if n := reads.hashes.Load(); n > int64(2*beside) {
		t.Errorf("%d of %d notifications were read for the latest, want at most %d", n, users*each, 2*beside)
	}
}

// The look for a user's latest reads as many keys as a page of a list, however many others a server has.
func TestLatestAmongManyKeys(t *testing.T) {
	t.Parallel()
	client, store := storeWithOne(t)
	for _, test := range []struct {
		others int
		all    bool
	}{{20_000, true}, {60_000, false}} {
		pipe := client.Pipeline()
		for i := range test.others {
			pipe.Set(t.Context(), fmt.Sprintf("other%d", i), 1, 0)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); ; { // a busy machine may take longer than it looks
			latest, note, err := store.Latest(t.Context(), "ada", 10, nil)
			if err != nil {
				t.Fatal(err)
			}
			all := !strings.Contains(note, "there may be others")
			if all == test.all && (!all || len(latest) == 1) {
				break
			}
			if time.Now().After(deadline) || all {
				t.Fatalf("among %d others: %+v, %q; all should be looked at: %t", test.others, latest, note, test.all)
			}
		}
	}
}

// stuckScan is a Redis that does not scan.
type stuckScan struct{ readCount }

func (*stuckScan) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if cmd.Name() == "scan" {
			<-ctx.Done()
			return ctx.Err()
		}
		return next(ctx, cmd)
	}
}

// While Redis is too slow to be looked through, the latest are those that the caller knows, and the note says so.
func TestLatestWhileRedisIsSlow(t *testing.T) {
	t.Parallel()
	client, store := storeWithOne(t)
	client.AddHook(&stuckScan{})
	latest, note, err := store.Latest(t.Context(), "ada", 10, []string{"n1"})
	if err != nil || len(latest) != 1 || latest[0].ID != "n1" || !strings.Contains(note, "there may be others") {
		t.Errorf("%+v, %q, %v", latest, note, err)
	}
}

// storeWithOne is a store that knows one notification, n1 of ada.
func storeWithOne(t *testing.T) (goredis.UniversalClient, *redis.Store) {
	t.Helper()
	client := redistest.Client(t)
	store := redis.New(client, agendasOf(t, client, storetest.Lease))
	if _, err := store.Accept(t.Context(), []*notification.Notification{{
		ID: "n1", UserID: "ada", Category: "free", Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
	}}); err != nil {
		t.Fatal(err)
	}
	return client, store
}
