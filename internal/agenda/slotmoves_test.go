package agenda_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/test/redistest"
)

// While a slot of a cluster moves, Redis refuses commands of several keys, of which some have moved. What asks for the
// state of the partitions gets it all the same.
func TestPartitionsAreReadWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Masters[0].Addr()}})
	t.Cleanup(func() { _ = client.Close() }) // all replies have come
	agendas := twoGuarded(t, client)
	prefix := keyspace.Prefix(0)
	for key, value := range map[string]string{"epoch": "3 here", "mark": "yes"} {
		if err := client.Set(t.Context(), prefix+key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 { // they move in several steps
		if err := client.Set(t.Context(), prefix+"other"+strconv.Itoa(i), "", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from, slot := cluster.Holder(t, prefix+"epoch")
	to := cluster.Masters[0]
	if from == to {
		to = cluster.Masters[1]
	}
	cluster.MoveSlot(t, slot, from, to, func() {
		counts, err := outlook.Of(agendas).Counts(t.Context())
		if err != nil || len(counts) != 2 || counts[0].Epoch != 3 {
			t.Errorf("the counts are %+v, %v", counts, err)
		}
		if elsewhere, err := maintenance.Of(agendas).Elsewhere(t.Context()); err != nil || !elsewhere {
			t.Errorf("another store has the notifications: %v, %v", elsewhere, err)
		}
	})
}
