package agenda_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// A process that does not know that the record has moved takes nothing in and gives nothing out beside those that do: not
// while it is being moved, nor while the lanes are rebuilt, nor afterwards.
func TestWhoKeepsTheRecordInRedisIsKeptOutOnceItHasMoved(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	settings := func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} }
	here, err := agenda.New(client, agenda.Config{Lanes: 2, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := agenda.New(client, agenda.Config{Lanes: 2, Settings: settings, Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	box := dispatch.BacklogOf("ada", "chat", 2)
	entry := agenda.Entry{ID: "n", UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}
	if _, err := here.Accept(t.Context(), box.Lane, []agenda.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	wantOut := func(when string) {
		t.Helper()
		_, accept := here.Accept(t.Context(), box.Lane, []agenda.Entry{entry})
		_, serve := here.Serve(t.Context(), dispatch.Round{Partition: box.Lane, ID: when, Pull: 1})
		_, sweep := here.Sweep(t.Context(), box.Lane)
		for what, err := range map[string]error{"accept": accept, "serve": serve, "sweep": sweep} {
			if !errors.Is(err, agenda.ErrMoved) {
				t.Errorf("%s: %s gives %v", when, what, err)
			}
		}
	}
	if holds, err := elsewhere.HoldsAny(t.Context()); err != nil || !holds {
		t.Errorf("before, the lanes hold something: %v, %v", holds, err)
	}
	if err := elsewhere.Move(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantOut("while it is being moved")
	if err := elsewhere.BeginRebuild(t.Context(), []int{0, 1}, "token"); err != nil {
		t.Fatal(err)
	}
	wantOut("while the lanes are rebuilt")
	for lane := range 2 {
		if err := elsewhere.EndRebuild(t.Context(), "token", lane, agenda.NewEpoch(1, "")); err != nil {
			t.Fatal(err)
		}
	}
	wantOut("afterwards")
	if holds, err := elsewhere.HoldsAny(t.Context()); err != nil || holds {
		t.Errorf("afterwards the lanes hold nothing of it: %v, %v", holds, err)
	}
}
