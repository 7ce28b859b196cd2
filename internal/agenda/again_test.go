package agenda_test

import (
	"errors"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/redistest"
)

// In the middle of a rebuild another server takes over. It has the rebuild's token, but it may lack what was restored
// last: so nothing more is restored there, and the partition does not go on before it is rebuilt once more.
func TestARebuildDoesNotGoOnWithOtherData(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	follow(t, replica, master)
	here, there := builtOn(t, master.Client(t)), builtOn(t, replica.Client(t))
	const token = "token"
	entries := []agenda.Entry{{ID: "n", UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}}
	steps := func(store *agenda.Agendas) map[string]error {
		_, accepted := store.RestoreEntries(t.Context(), token, 0, entries)
		return map[string]error{
			"entries": accepted,
			"window": store.RestoreWindow(t.Context(), token, dispatch.BacklogOf("ada", "chat", 1),
				agenda.WindowPart{Admitted: []agenda.Admission{{At: throttle.Micros(1)}}}),
			"pause": maintenance.Of(store).RestorePause(t.Context(), token, 0),
		}
	}
	if err := beginRebuild(t.Context(), here, []int{0}, token); err != nil {
		t.Fatal(err)
	}
	for what, err := range steps(here) {
		if err != nil {
			t.Errorf("where the rebuild began: %s: %v", what, err)
		}
	}
	master.AwaitReplica()
	if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	for what, err := range steps(there) {
		if !errors.Is(err, dispatch.ErrLost) {
			t.Errorf("on the promoted replica: %s: %v, want %v", what, err, dispatch.ErrLost)
		}
	}
	end := func(store *agenda.Agendas) error {
		return maintenance.Of(store).EndRebuild(t.Context(), token, 0, built(1, ""))
	}
	if err := end(there); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("the end on the promoted replica: %v, want %v", err, dispatch.ErrLost)
	}
	if builds, err := maintenance.Of(there).Builds(t.Context()); err != nil || builds[0].Epoch != "" {
		t.Errorf("built are %v (%v)", builds, err)
	}
	build(t, there, "again")
	if err := end(here); err != nil {
		t.Errorf("the end where the rebuild began: %v", err)
	}
}

// Only the rebuild that a partition is in pauses it.
func TestARebuildThatWasOvertakenPausesNothing(t *testing.T) {
	t.Parallel()
	store := twoGuarded(t, redistest.Client(t))
	if err := beginRebuild(t.Context(), store, []int{0}, "token"); err != nil {
		t.Fatal(err)
	}
	if err := maintenance.Of(store).RestorePause(t.Context(), "another", 0); !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("another rebuild may pause: %v", err)
	}
}
