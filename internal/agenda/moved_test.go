package agenda_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A process that does not know that the store has moved takes nothing in and gives nothing out beside those that do:
// not while it is being moved, nor while the partitions are rebuilt, nor afterwards.
func TestAProcessOnRedisIsRefusedOnceTheStoreHasMoved(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	settings := func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} }
	here, err := agenda.New(client, agenda.Config{Partitions: 2, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := agenda.New(client, agenda.Config{Partitions: 2, Settings: settings, Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	backlog := dispatch.BacklogOf("ada", "chat", 2)
	entry := agenda.Entry{ID: "n", UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}
	if _, err := here.Accept(t.Context(), backlog.Partition, []agenda.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	wantOut := func(when string) {
		t.Helper()
		_, accept := here.Accept(t.Context(), backlog.Partition, []agenda.Entry{entry})
		_, serve := here.Take(t.Context(), dispatch.TakeRequest{Partition: backlog.Partition, ID: when, Pull: 1})
		_, sweep := here.Sweep(t.Context(), backlog.Partition)
		for what, err := range map[string]error{"accept": accept, "serve": serve, "sweep": sweep} {
			if !errors.Is(err, keyspace.ErrMoved) {
				t.Errorf("%s: %s gives %v", when, what, err)
			}
		}
	}
	if err := maintenance.Of(elsewhere).Fence(t.Context(), "mark"); err != nil {
		t.Fatal(err)
	}
	wantOut("while it is being moved")
	if err := beginRebuild(t.Context(), elsewhere, []int{0, 1}, "token"); err != nil {
		t.Fatal(err)
	}
	wantOut("while the partitions are rebuilt")
	for partition := range 2 {
		if err := maintenance.Of(elsewhere).EndRebuild(t.Context(), "token", partition, built(1, "")); err != nil {
			t.Fatal(err)
		}
	}
	wantOut("afterwards")
}

// twoGuarded opens the agendas of a deployment with two partitions, in which another store keeps the notifications.
func twoGuarded(t *testing.T, client redis.UniversalClient) *agenda.Agendas {
	t.Helper()
	agendas, err := agenda.New(client, agenda.Config{
		Partitions: 2, Guarded: true,
		Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return agendas
}

// A process stands still while it removes what a partition has left, for so long that another one rebuilds the
// partition. It removes nothing of that when it goes on.
func TestARebuildThatWasOvertakenRemovesNothing(t *testing.T) {
	t.Parallel()
	first := redistest.Client(t)
	other := twoGuarded(t, first)
	partition := dispatch.BacklogOf("ada", "chat", 2).Partition
	build := func(token string) {
		t.Helper()
		entry := agenda.Entry{ID: "n", UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}
		begun := beginRebuild(t.Context(), other, []int{partition}, token)
		_, restored := other.RestoreEntries(t.Context(), token, partition, []agenda.Entry{entry})
		ended := maintenance.Of(other).EndRebuild(t.Context(), token, partition, built(1, ""))
		if err := errors.Join(begun, restored, ended); err != nil {
			t.Fatal(err)
		}
	}
	build("before")
	client := redis.NewClient(first.Options())
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(afterScan(sync.OnceFunc(func() { build("meanwhile") })))
	err := beginRebuild(t.Context(), twoGuarded(t, client), []int{partition}, "slow")
	if !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("the rebuild that was overtaken says %v", err)
	}
	counts, err := outlook.Of(other).Stats(t.Context())
	if err != nil || counts.Queued != 1 {
		t.Errorf("%+v, %v; want the one that the other rebuild has put back", counts, err)
	}
}

// afterScan is a hook that does something after each SCAN, before its caller has the reply.
type afterScan func()

func (afterScan) DialHook(next redis.DialHook) redis.DialHook { return next }

func (do afterScan) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "scan" {
			do()
		}
		return err
	}
}

func (afterScan) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
