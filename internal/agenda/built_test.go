package agenda_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// builtOn gives a guarded store of one partition on a server.
func builtOn(t *testing.T, client *redis.Client) *agenda.Agendas {
	t.Helper()
	settings := agenda.Settings{
		Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 5, Per: time.Hour}}}, MaxDefer: 24 * time.Hour,
	}
	store, err := agenda.New(client, agenda.Config{
		Partitions: 1, Guarded: true, Settings: func(string, string) agenda.Settings { return settings },
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// build has a store build its partition with one that waits.
func build(t *testing.T, store *agenda.Agendas, id string) {
	t.Helper()
	err := beginRebuild(t.Context(), store, []int{0}, "token")
	if err == nil {
		err = maintenance.Of(store).EndRebuild(t.Context(), "token", 0, built(1, ""))
	}
	if err == nil {
		_, err = store.Accept(t.Context(), 0, []agenda.Entry{{
			ID: id, UserID: "ada", Category: "chat", Priority: 3, Payload: "{}",
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// follow has one server copy another, and waits until it has all.
func follow(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.Client(t).ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	for strings.Contains(replica.Client(t).Info(t.Context(), "replication").Val(), "master_link_status:down") {
		if t.Context().Err() != nil {
			t.Fatal("the replica never follows")
		}
		<-time.After(10 * time.Millisecond)
	}
}

// A promoted replica may lack the latest admissions: there a partition grants nothing until it is rebuilt. It does not
// matter who asks first, nor whether the new server's identity has been checked.
func TestAPartitionHoldsOnAServerThatItWasNotBuiltOn(t *testing.T) {
	t.Parallel()
	for asks, ask := range map[string]func(*agenda.Agendas) error{
		"serve": func(s *agenda.Agendas) error {
			_, err := s.Take(t.Context(), dispatch.TakeRequest{ID: "there", Pull: 1})
			return err
		},
		"sweep": func(s *agenda.Agendas) error { _, err := s.Sweep(t.Context(), 0); return err },
	} {
		t.Run(asks, func(t *testing.T) {
			t.Parallel()
			master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
			follow(t, replica, master) // the first replica of a server begins another history of its data
			here := builtOn(t, master.Client(t))
			build(t, here, "n")
			if _, err := here.Sweep(t.Context(), 0); err != nil {
				t.Errorf("where it was built: %v", err)
			}
			master.AwaitReplica()
			if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			there := builtOn(t, replica.Client(t))
			if err := ask(there); !errors.Is(err, dispatch.ErrLost) {
				t.Errorf("on the promoted replica: %v, want %v", err, dispatch.ErrLost)
			}
			if builds, err := maintenance.Of(there).Builds(t.Context()); err != nil || builds[0].Epoch != "" {
				t.Errorf("built are %v (%v)", builds, err)
			}
			build(t, there, "again")
			reply, err := there.Take(t.Context(), dispatch.TakeRequest{ID: "rebuilt", Pull: 1})
			if err != nil || len(reply.Pulled) != 1 {
				t.Errorf("once it is rebuilt: %+v, %v", reply, err)
			}
		})
	}
}

// A partition from which Redis has evicted where it was built counts as built here, from the first request on.
func TestAPartitionWithoutItsServerIsTakenAsItIsFound(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	store := builtOn(t, client)
	build(t, store, "n")
	built := keyspace.Prefix(0) + "built"
	want := client.GetDel(t.Context(), built).Val()
	reply, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "first", Pull: 1})
	if err != nil || len(reply.Pulled) != 1 {
		t.Errorf("%+v, %v", reply, err)
	}
	if got := client.Get(t.Context(), built).Val(); got != want || want == "" {
		t.Errorf("built on %q, want %q", got, want)
	}
}
