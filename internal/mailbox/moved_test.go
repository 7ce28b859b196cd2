package mailbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// A process that does not know that the record has moved takes nothing in and gives nothing out beside those that do: not
// while it is being moved, nor while the lanes are rebuilt, nor afterwards.
func TestWhoKeepsTheRecordInRedisIsKeptOutOnceItHasMoved(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	terms := func(string, string) mailbox.Terms { return mailbox.Terms{MaxDefer: time.Hour} }
	here, err := mailbox.New(client, mailbox.Config{Lanes: 2, Terms: terms})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := mailbox.New(client, mailbox.Config{Lanes: 2, Terms: terms, Guarded: true})
	if err != nil {
		t.Fatal(err)
	}
	box := dispatch.MailboxOf("ada", "chat", 2)
	entry := mailbox.Entry{ID: "n", UserID: "ada", Category: "chat", Priority: 3, Payload: "{}"}
	if _, err := here.Put(t.Context(), box.Lane, []mailbox.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	wantOut := func(when string) {
		t.Helper()
		_, put := here.Put(t.Context(), box.Lane, []mailbox.Entry{entry})
		_, take := here.Take(t.Context(), dispatch.Question{Tick: dispatch.Tick{ID: "n", Mailbox: box}, Nonce: when, Pulled: true})
		_, sweep := here.Sweep(t.Context(), box.Lane)
		for what, err := range map[string]error{"put": put, "take": take, "sweep": sweep} {
			if !errors.Is(err, mailbox.ErrMoved) {
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
		if err := elsewhere.EndRebuild(t.Context(), "token", lane, mailbox.NewEpoch(1, "")); err != nil {
			t.Fatal(err)
		}
	}
	wantOut("afterwards")
	if holds, err := elsewhere.HoldsAny(t.Context()); err != nil || holds {
		t.Errorf("afterwards the lanes hold nothing of it: %v, %v", holds, err)
	}
}
