package effective_test

import (
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestRescheduleWakesEveryUserWhoWaits(t *testing.T) {
	t.Parallel()
	p := fixed(t, rulesText)
	agendas, err := agenda.New(redistest.Client(t), agenda.Config{Partitions: 4, Settings: p.Settings})
	if err != nil {
		t.Fatal(err)
	}
	if users, err := effective.Reschedule(t.Context(), agendas); err != nil || users != 0 {
		t.Errorf("nobody waits: woke %d, %v", users, err)
	}
	for i := range 10 {
		user := fmt.Sprint("user", i)
		entry := agenda.Entry{ID: fmt.Sprint("n", i), UserID: user, Category: "chat", Priority: 3}
		if _, err := agendas.Accept(t.Context(), agendas.PartitionOf(user), []agenda.Entry{entry}); err != nil {
			t.Fatal(err)
		}
	}
	if users, err := effective.Reschedule(t.Context(), agendas); err != nil || users != 10 {
		t.Errorf("ten users wait: woke %d, %v", users, err)
	}
}
