package postgres_test

import (
	"errors"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
)

// Redis comes back with counts of before an earlier rebuild, which the database has. They are not counted again, nor
// when the process dies that was about to rebuild.
func TestCountsOfBeforeARebuildAreCountedOnce(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"Rebuilt": false, "RebuiltByAnother": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.accept(t, "ada", "slow", 5)
			w.deliverAll(t)
			ada := w.agendas.PartitionOf("ada")
			keys, old := []string{keyspace.Prefix(ada) + "c", keyspace.Prefix(ada) + "epoch"}, []string{}
			for _, key := range keys {
				old = append(old, w.redis.Dump(t.Context(), key).Val())
			}
			for range 2 {
				if _, err := w.relay.Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			before := w.stats(t).Totals
			w.flush(t)
			for i, key := range keys {
				if err := w.redis.Restore(t.Context(), key, 0, old[i]).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if dies {
				_, stopped := maintenance.Of(w.agendas).Stop(t.Context(), []int{ada}, "dies", "")
				emptied := maintenance.Of(w.agendas).Empty(t.Context(), map[int]maintenance.Kept{ada: {}}, "dies")
				left := w.redis.Restore(t.Context(), keys[0], 0, old[0]).Err() // it died before it removed the counts
				if err := errors.Join(stopped, emptied, left); err != nil {
					t.Fatal(err)
				}
			}
			w.round(t)
			w.round(t)
			if got := w.stats(t).Totals; before.Pulls == 0 || before.Deferrals != 4 || got.Pulls != before.Pulls ||
				got.Deferrals != before.Deferrals {
				t.Errorf("%d pulls and %d deferrals, want %d and %d", got.Pulls, got.Deferrals, before.Pulls,
					before.Deferrals)
			}
		})
	}
}
