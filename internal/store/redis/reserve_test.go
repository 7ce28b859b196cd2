package redis_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A look at a key whose request has given up says so and takes nothing over; the next reservation does.
func TestALookTellsThatARequestHasGivenUp(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	reserve := func(id string, want intake.Reservation) {
		t.Helper()
		if got, err := storetest.ReserveOne(t.Context(), store, "key", "body", id); err != nil || got != want {
			t.Fatalf("reserved as %+v, %v; want %+v", got, err, want)
		}
	}
	reserve("old", intake.Reservation{Claim: intake.ClaimNew, ID: "old"})
	if err := client.HSet(t.Context(), agenda.PartitionPrefix(0)+"k:key", "p", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for fingerprint, claim := range map[string]intake.Claim{"body": intake.ClaimNew, "other": intake.ClaimOther} {
		want := intake.Reservation{Claim: claim, ID: "old"}
		if got, err := store.Reserved(t.Context(), "key", fingerprint); err != nil || got != want {
			t.Errorf("%s is reserved as %+v, %v; want %+v", fingerprint, got, err, want)
		}
	}
	reserve("new", intake.Reservation{Claim: intake.ClaimNew, ID: "old"})
	reserve("new", intake.Reservation{Claim: intake.ClaimBusy, ID: "old"})
}

// A full Redis still tells who has a key, and notes that its notification was accepted.
func TestAFullRedisTellsWhoHasAKey(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 1, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	if _, err := storetest.ReserveOne(t.Context(), store, "key", "body", "id"); err != nil {
		t.Fatal(err)
	}
	server.ConfigSet("maxmemory", "1")
	at := time.UnixMicro(1).UTC()
	if err := store.Commit(t.Context(), []intake.AcceptedKey{{Key: "key", At: at}}); err != nil {
		t.Error(err)
	}
	want := intake.Reservation{Claim: intake.ClaimDone, ID: "id", At: at}
	if got, err := store.Reserved(t.Context(), "key", "body"); err != nil || got != want {
		t.Errorf("it is reserved as %+v, %v; want %+v", got, err, want)
	}
}

// A key outlives its notification, so it keeps when that was accepted, if that is known. One that is over when it is
// committed stays over.
func TestAKeyKeepsWhenItsNotificationWasAccepted(t *testing.T) {
	t.Parallel()
	client, at := redistest.Client(t), time.Date(2026, 3, 14, 15, 9, 26, 535_000, time.UTC)
	agendas, err := agenda.New(client, agenda.Config{Partitions: 2, Settings: storetest.Settings})
	if err != nil {
		t.Fatal(err)
	}
	store := redis.New(client, agendas)
	var accepted []intake.AcceptedKey
	for _, key := range []string{"one", "two", "unknown", "over"} {
		if _, err := storetest.ReserveOne(t.Context(), store, key, "body", "id"); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Microsecond)
		accepted = append(accepted, intake.AcceptedKey{Key: key, At: at})
	}
	accepted[2].At = time.Time{}
	over := agenda.PartitionPrefix(agendas.PartitionOf("over")) + "k:over"
	if err := client.Del(t.Context(), over).Err(); err != nil {
		t.Fatal(err)
	}
	if err := store.Commit(t.Context(), accepted); err != nil {
		t.Fatal(err)
	}
	for _, k := range accepted[:3] {
		want := intake.Reservation{Claim: intake.ClaimDone, ID: "id", At: k.At}
		if got, err := store.Reserved(t.Context(), k.Key, "body"); err != nil || got != want {
			t.Errorf("%s is reserved as %+v, %v; want %+v", k.Key, got, err, want)
		}
		if got, err := storetest.ReserveOne(t.Context(), store, k.Key, "body", "new"); err != nil || got != want {
			t.Errorf("%s is reserved again as %+v, %v; want %+v", k.Key, got, err, want)
		}
	}
	if n, err := client.Exists(t.Context(), over).Result(); err != nil || n > 0 {
		t.Errorf("the key that was over is back (%v)", err)
	}
}

// A process that dies between claiming an id and keeping its notification leaves the id to its user.
func TestAnIDThatWasOnlyClaimed(t *testing.T) {
	t.Parallel()
	client, store := storeWithOne(t)
	keys, err := client.Keys(t.Context(), "pacer:{push-*}:n:n1").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	if err := client.Del(t.Context(), keys...).Err(); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	accept := func(user string) (known bool) {
		t.Helper()
		results, err := store.Accept(t.Context(), []*notification.Notification{{
			ID: "n1", UserID: user, Category: "free", Channel: notification.ChannelLog, Priority: notification.PriorityNormal,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Known
	}
	if accept("ada") || !accept("somebody else") {
		t.Error("an id that was only claimed is not its user's alone")
	}
}
