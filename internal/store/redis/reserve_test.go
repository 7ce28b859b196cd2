package redis_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/intake"
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
