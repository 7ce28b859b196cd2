package agenda_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/test/redistest"
)

// Of a user with settings of their own nothing is kept once nothing waits for them, however that came.
func TestNothingIsLeftOfAUserWithOwnSettings(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, id string){
		"delivered": func(w *world, _ string) { w.drain() },
		"cancelled": func(w *world, id string) {
			if err := w.store.CancelIn(t.Context(), w.store.PartitionOf("ada"), id, "cancelled"); err != nil {
				t.Error(err)
			}
		},
		"expired": func(w *world, _ string) {
			w.now = w.now.Add(3 * time.Hour) // its wake-up comes late
			w.setClock()
			w.sweep()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t, redistest.Client(t), agenda.Settings{})
			store, err := agenda.New(w.client, agenda.Config{
				Partitions: partitions, Settings: w.settingsOf, Lease: lease, Process: "worker",
				Personal: func(string) bool { return true },
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.UseClockKey(); err != nil {
				t.Fatal(err)
			}
			w.store = store
			id := w.accept(agenda.Entry{SendAt: start.Add(time.Hour), ExpiresAt: start.Add(2 * time.Hour)})
			end(w, id)
			if left := w.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
