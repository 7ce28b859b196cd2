package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/store/postgres/records"
	"github.com/pacer-notify/pacer/internal/store/postgres/relay"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// messages is a log that hands over each line.
type messages chan string

// Write implements [io.Writer].
func (m messages) Write(line []byte) (int, error) {
	m <- string(line)
	return len(line), nil
}

// rebuildLocked begins a rebuild while another process rebuilds, until told that it waits. release lets the other
// process end, result gives what Rebuild returns.
func rebuildLocked(ctx context.Context, t *testing.T) (release func(), result <-chan error) {
	t.Helper()
	w := newWorld(t, redistest.Client(t))
	other, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Rollback(context.Background()) }) // the pool waits for it
	var locked bool
	if err := other.QueryRow(t.Context(), connect.TryLockSQL, int64(seam.RebuildLock)).Scan(&locked); err != nil ||
		!locked {
		t.Fatalf("locked: %v, %v", locked, err)
	}
	log, returned := make(messages, 10), make(chan error, 1)
	store := postgres.New(w.pool, w.agendas, postgres.Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(func() { _ = store.Close() })
	relay := relay.New(store.Stores, relay.Config{Windows: func(string) time.Duration { return time.Hour }})
	go func() {
		done, err := relay.Rebuild(ctx)
		if err == nil && len(done.Partitions) != storetest.Partitions {
			err = fmt.Errorf("rebuilt only the partitions %v", done.Partitions)
		}
		returned <- err
	}()
	select {
	case <-log:
	case err := <-returned:
		t.Fatalf("the rebuild returned, with %v, while another process rebuilds", err)
	}
	return func() {
		if err := other.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}, returned
}

// Whoever orders a rebuild while the workers rebuild gets it once they are done.
func TestRebuildWaitsForThatOfAnotherProcess(t *testing.T) {
	t.Parallel()
	release, result := rebuildLocked(t.Context(), t)
	release()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// An operator may give up waiting.
func TestRebuildStopsWaitingWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	release, result := rebuildLocked(ctx, t)
	defer release()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the rebuild returned %v", err)
	}
}

// What else the deployment keeps in Redis is written before the partitions are built, which may take minutes, and again
// afterwards.
func TestARebuildTellsAsItBeginsAndAsItEnds(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	w := newWorld(t, client)
	var built []int64
	relay := relay.New(w.store.Stores, relay.Config{
		Windows: func(string) time.Duration { return time.Hour },
		Rebuilding: func(ctx context.Context) {
			built = append(built, client.Exists(ctx, keyspace.Prefix(0)+"epoch").Val())
		},
	})
	w.flush(t)
	if _, err := relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(built, []int64{0, 1}) {
		t.Errorf("told when the partition was built %v times, want before and after", built)
	}
}

// The database knows the number of partitions that were built last, also when there were more before.
func TestTheNumberOfPartitionsIsThatOfTheLastBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	want := func(want int) {
		t.Helper()
		if n, err := rebuild.Partitions(t.Context(), w.pool); n != want || err != nil {
			t.Errorf("%d partitions, %v; want %d", n, err, want)
		}
	}
	want(storetest.Partitions)
	w.exec(t, "INSERT INTO pacer.partitions (partition, epoch, rebuilt_at) VALUES (63, 7, 1)")
	want(64)
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(storetest.Partitions)
	var epoch int
	row := w.pool.QueryRow(t.Context(), "SELECT epoch FROM pacer.partitions WHERE partition = 63")
	if err := row.Scan(&epoch); err != nil || epoch != 7 {
		t.Errorf("the epoch of a former partition is %d, %v; want 7, as it was", epoch, err)
	}
	w.exec(t, "DELETE FROM pacer.partitions")
	want(0)
}

// A partition that an operator has paused grants nothing after a loss either, not even before a process looks after the
// pauses again.
func TestAPausedPartitionIsRebuiltPaused(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	w := newWorld(t, client)
	pauses := control.New(records.New(w.pool))
	for _, s := range []control.Subject{
		{Kind: control.Partition, Name: "1"}, {Kind: control.Partition, Name: "9"}, {Kind: control.Category, Name: "0"},
	} {
		if err := pauses.Pause(t.Context(), control.Pause{Subject: s, By: "op"}); err != nil {
			t.Fatal(err)
		}
	}
	w.accept(t, w.userOf(0), "free", 1)
	w.accept(t, w.userOf(1), "free", 1)
	w.flush(t)
	if _, err := w.relay.RebuildLost(t.Context()); err != nil {
		t.Fatal(err)
	}
	for partition, want := range []int{1, 0} {
		reply, err := w.store.Take(t.Context(), dispatch.TakeRequest{
			Partition: partition, ID: "a", Pull: 1, Capacity: 1,
		})
		if err != nil || len(reply.Pulled)+len(reply.Served) != want {
			t.Errorf("partition %d gives %+v, %v; want %d users", partition, reply, err, want)
		}
	}
	if _, err := queue.NewClient(client).Reconcile(t.Context(), storetest.Partitions,
		func(int) bool { return false }); err != nil {
		t.Fatal(err)
	}
	reply, err := w.store.Take(t.Context(), dispatch.TakeRequest{Partition: 1, ID: "b", Pull: 1, Capacity: 1})
	if err != nil || len(reply.Pulled)+len(reply.Served) != 1 {
		t.Errorf("once it is resumed: %+v, %v", reply, err)
	}
}

// A server that comes back with other data in the middle of a rebuild may lack what was restored. That rebuild ends
// nothing, and the next one restores everything.
func TestARebuildOnOtherDataBeginsAgain(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t, "--enable-debug-command", "local").Client(t)
	w := newWorld(t, client)
	w.accept(t, w.userOf(0), "free", 4)
	w.deliver(t, w.userOf(0))
	w.flush(t)
	loseOnce := sync.OnceFunc(func() {
		if err := client.Do(t.Context(), "DEBUG", "CHANGE-REPL-ID").Err(); err != nil {
			t.Error(err)
		}
	})
	relay := relay.New(w.store.Stores, relay.Config{
		Windows: func(string) time.Duration { loseOnce(); return time.Hour }, // asked after the backlogs are restored
	})
	if _, err := relay.RebuildLost(t.Context()); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("the rebuild says %v, want %v", err, dispatch.ErrLost)
	}
	if n := client.Exists(t.Context(), keyspace.Prefix(0)+"epoch").Val(); n != 0 {
		t.Error("the partition goes on")
	}
	done, err := relay.RebuildLost(t.Context())
	if err != nil || len(done.Partitions) != storetest.Partitions || done.Waiting != 3 {
		t.Errorf("the next rebuild: %+v, %v", done, err)
	}
	w.wantInLine(t, 3)
}
