package mailbox_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// builtOn gives a guarded store of one lane on a server.
func builtOn(t *testing.T, client *redis.Client) *mailbox.Store {
	t.Helper()
	store, err := mailbox.New(client, mailbox.Config{Lanes: 1, Guarded: true, Terms: func(string, string) mailbox.Terms {
		return mailbox.Terms{Plan: throttle.Plan{Rules: []throttle.Rule{{Max: 5, Per: time.Hour}}}, MaxDefer: 24 * time.Hour}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// build has a store build its lane with one that waits.
func build(t *testing.T, store *mailbox.Store, id string) dispatch.Tick {
	t.Helper()
	err := store.BeginRebuild(t.Context(), []int{0}, "token")
	if err == nil {
		err = store.EndRebuild(t.Context(), "token", 0, mailbox.NewEpoch(1, ""))
	}
	if err == nil {
		_, err = store.Put(t.Context(), 0, []mailbox.Entry{{ID: id, UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return dispatch.Tick{ID: id, Mailbox: dispatch.MailboxOf("ada", "chat", 1)}
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

// A replica that takes its master's place may lack the latest admissions: a lane gives nothing out there before it is built
// anew. Who asks first does not matter, nor whether the new server's identity has been looked at.
func TestALaneHoldsOnAServerThatItWasNotBuiltOn(t *testing.T) {
	t.Parallel()
	for asks, ask := range map[string]func(*mailbox.Store, dispatch.Tick) error{
		"take": func(s *mailbox.Store, tick dispatch.Tick) error {
			_, err := s.Take(t.Context(), dispatch.Question{Tick: tick, Nonce: "there", Pulled: true})
			return err
		},
		"sweep": func(s *mailbox.Store, _ dispatch.Tick) error { _, err := s.Sweep(t.Context(), 0); return err },
	} {
		t.Run(asks, func(t *testing.T) {
			t.Parallel()
			master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
			follow(t, replica, master) // the first replica of a server begins another history of its data
			here := builtOn(t, master.Client(t))
			tick := build(t, here, "n")
			if _, err := here.Sweep(t.Context(), 0); err != nil {
				t.Errorf("where it was built: %v", err)
			}
			if n := master.Client(t).Wait(t.Context(), 1, time.Minute).Val(); n != 1 {
				t.Fatalf("%d replicas have it all", n)
			}
			if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			there := builtOn(t, replica.Client(t))
			if err := ask(there, tick); !errors.Is(err, mailbox.ErrLost) {
				t.Errorf("on the promoted replica: %v, want %v", err, mailbox.ErrLost)
			}
			if lost, err := there.Lost(t.Context(), func(int) mailbox.Epoch { return mailbox.NewEpoch(1, "") }); err != nil || len(lost) != 1 {
				t.Errorf("lost are %v (%v)", lost, err)
			}
			tick = build(t, there, "again")
			if answer, err := there.Take(t.Context(), dispatch.Question{Tick: tick, Nonce: "rebuilt", Pulled: true}); err != nil || answer.Granted == nil {
				t.Errorf("once it is rebuilt: %+v, %v", answer, err)
			}
		})
	}
}

// A lane that an earlier version built is known to be here from the first look on.
func TestALaneOfAnEarlierVersionIsTakenAsItIsFound(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	store := builtOn(t, client)
	tick := build(t, store, "n")
	built := mailbox.LanePrefix(0) + "built"
	want := client.GetDel(t.Context(), built).Val()
	if answer, err := store.Take(t.Context(), dispatch.Question{Tick: tick, Nonce: "first", Pulled: true}); err != nil || answer.Granted == nil {
		t.Errorf("%+v, %v", answer, err)
	}
	if got := client.Get(t.Context(), built).Val(); got != want || want == "" {
		t.Errorf("built on %q, want %q", got, want)
	}
}
