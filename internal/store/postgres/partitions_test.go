package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// errShard is what every command to a shard that is away returns.
var errShard = errors.New("the shard is away")

// onePartitionAway is a hook under which every command about one partition fails, as if its shard were away.
type onePartitionAway struct {
	partition atomic.Int32 // -1: none
}

func (o *onePartitionAway) about(command goredis.Cmder) bool {
	prefix := keyspace.Prefix(int(o.partition.Load()))
	for _, arg := range command.Args() {
		if text, ok := arg.(string); ok && strings.HasPrefix(text, prefix) {
			command.SetErr(errShard)
			return true
		}
	}
	return false
}

// DialHook implements [goredis.Hook].
func (o *onePartitionAway) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements [goredis.Hook].
func (o *onePartitionAway) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, command goredis.Cmder) error {
		if o.about(command) {
			return errShard
		}
		return next(ctx, command)
	}
}

// ProcessPipelineHook implements [goredis.Hook]. As in a cluster, commands to the other shards get their replies.
func (o *onePartitionAway) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, commands []goredis.Cmder) error {
		var others []goredis.Cmder
		for _, command := range commands {
			if !o.about(command) {
				others = append(others, command)
			}
		}
		if len(others) > 0 {
			if err := next(ctx, others); err != nil {
				return err
			}
		}
		if len(others) < len(commands) {
			return errShard
		}
		return nil
	}
}

// userOf gives a user of a partition.
func (w *world) userOf(partition int) string {
	for i := 0; ; i++ {
		if user := fmt.Sprint("user", i); w.agendas.PartitionOf(user) == partition {
			return user
		}
	}
}

// The shard of one partition is away, whichever it is. The notifications of the others are carried over and rebuilt all
// the same, and those of the partition when its shard is back.
func TestOnePartitionAwayKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	for partition := range storetest.Partitions {
		t.Run(fmt.Sprint(partition), func(t *testing.T) {
			t.Parallel()
			hook := &onePartitionAway{}
			hook.partition.Store(-1)
			client := redistest.Client(t)
			client.AddHook(hook)
			w := newWorld(t, client)
			here, away := w.userOf(1-partition), w.userOf(partition)
			hook.partition.Store(int32(partition))

			w.enqueueMany(t, away, 600) // more than one look takes, and before the other
			w.enqueueMany(t, here, 1)
			w.roundDespite(t, errShard)
			w.wantInLine(t, 1)
			w.wantDelivered(t, here, here+"-0")

			w.flush(t)
			w.exec(t, "DELETE FROM pacer.outbox WHERE key LIKE $1", here+"-%")
			w.accept(t, here, "free", 1) // left in the outbox: its partition has lost its state
			w.roundDespite(t, errShard)
			w.wantDelivered(t, here, here+"-free-0")

			w.accept(t, here, "free", 2) // the first is known
			w.evict(t, 1-partition)
			if done, err := w.relay.Rebuild(t.Context()); !errors.Is(err, errShard) ||
				!slices.Equal(done.Partitions, []int{1 - partition}) {
				t.Errorf("the operator's rebuild says %+v, %v", done, err)
			}
			w.wantDelivered(t, here, here+"-free-1")

			hook.partition.Store(-1)
			w.await(t, "all are in their backlogs",
				func() bool { return w.relay.Round(t.Context()) == nil && w.inBacklogs(t) == 600 })
			w.wantDelivered(t, away, away+"-0")
			w.wantNothingLeft(t)
		})
	}
}

// enqueueMany accepts notifications within a producer's transaction.
func (w *world) enqueueMany(t *testing.T, user string, n int) {
	t.Helper()
	w.exec(t,
		`SELECT pacer.enqueue(jsonb_build_object('id', $1::text || '-' || i, 'user_id', $1::text, 'category', 'free'))
			FROM generate_series(0, $2 - 1) i`, user, n)
}

// evict removes all that Redis has of a partition but its epoch, so that the partition seems to be as it was.
func (w *world) evict(t *testing.T, partition int) {
	t.Helper()
	prefix := keyspace.Prefix(partition)
	keys, err := w.redis.Keys(t.Context(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if key == prefix+"epoch" {
			continue
		}
		if err := w.redis.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// roundDespite makes a round of the relay, and wants it to return an error.
func (w *world) roundDespite(t *testing.T, want error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.relay.Round(ctx); !errors.Is(err, want) {
		t.Errorf("the relay says %v, want %v", err, want)
	}
}

func (w *world) wantInLine(t *testing.T, want int) {
	t.Helper()
	if got := w.inBacklogs(t); got != want {
		t.Fatalf("%d are in their backlogs, want %d", got, want)
	}
}

// wantDelivered delivers a user's next notification by the user's wake-up, and wants it to have an id.
func (w *world) wantDelivered(t *testing.T, user, want string) {
	t.Helper()
	w.wantAwake(t, user)
	if id := w.deliver(t, user); id != want {
		t.Errorf("%s is delivered, want %s", id, want)
	}
}

// The counts say which partition they lack. When all partitions are away there are no counts.
func TestCountsLackOnePartition(t *testing.T) {
	t.Parallel()
	hook := &onePartitionAway{}
	hook.partition.Store(-1)
	client := redistest.Client(t)
	client.AddHook(hook)
	w := newWorld(t, client)
	w.accept(t, w.userOf(0), "free", 3)
	w.accept(t, w.userOf(1), "free", 5)
	hook.partition.Store(0)
	counts, err := outlook.Of(w.agendas).Stats(t.Context())
	if err != nil || !counts.Partial || counts.Totals.Accepted != 5 || counts.Queued != 5 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	want := []stats.Partition{{Partition: 0, Unreachable: true}, {Partition: 1, Queued: 5}}
	if diff := cmp.Diff(want, counts.Partitions[:2]); diff != "" {
		t.Errorf("partitions differ (-want +got):\n%s", diff)
	}
	if crowds, err := outlook.Of(w.agendas).Crowds(t.Context(), 5); err != nil || crowds.Exact {
		t.Errorf("who waits is exact, %v", err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if counts, err := outlook.Of(w.agendas).Stats(t.Context()); err == nil {
		t.Errorf("without Redis the counts are %+v", counts)
	}
}

// While all of Redis is away, a round reads one batch of the outbox, beside one of what was refused: none of the others
// can be placed either, and to read them is work for the one store that still accepts.
func TestARoundReadsLittleWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	looks := &counter{text: "CASE WHEN o.refused_at IS NULL"}
	w := newWorldOn(t, redistest.Client(t), agenda.Config{Lease: time.Hour}, postgrestest.URL(t),
		func(config *pgxpool.Config) { config.ConnConfig.Tracer = looks })
	for partition := range storetest.Partitions {
		w.enqueueMany(t, w.userOf(partition), 600)
	}
	p := w.process(t, postgres.Config{StatementTimeout: time.Minute}, func(*process) error { return errShard })
	relay := relay.New(p.store.Stores, relay.Config{
		Check:   func(*notification.Notification) error { return nil },
		Windows: func(string) time.Duration { return time.Hour },
	})
	before := looks.n.Load()
	if err := relay.Round(t.Context()); !errors.Is(err, errShard) {
		t.Errorf("the relay says %v", err)
	}
	if n := looks.n.Load() - before; n > 2 { // the second partition may come in the second batch
		t.Errorf("it has read the outbox %d times", n)
	}
	w.wantInLine(t, 0)
	for range 2 { // behind the place where that round ended, and from the beginning
		w.round(t)
	}
	w.wantInLine(t, 600*storetest.Partitions)
}
