package presence_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/test/redistest"
)

// While Redis has no memory left, processes that live stay listed, and those that died are forgotten, without a fault.
func TestAFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	living := presence.NewAnnouncer(client, "host-a", []string{"worker"}, idle, quiet)
	dead := presence.NewAnnouncer(client, "host-b", []string{"worker"}, idle, quiet)
	announce(t, living)
	announce(t, dead)
	server.ConfigSet("maxmemory", "1")
	for _, id := range []string{living.ID(), dead.ID()} {
		if err := client.Expire(t.Context(), "pacer:{processes}:"+id, time.Second).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := living.Announce(t.Context()); err == nil {
		t.Error("a full Redis takes a new entry")
	}
	for deadline := time.Now().Add(time.Minute); len(list(t, client)) != 1; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("listed are %v, want only %s", list(t, client), living.ID())
		}
	}
}
