package agenda_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A Redis that has hardly any memory left accepts nothing more. What it has is delivered.
func TestAFullRedisAcceptsNothing(t *testing.T) {
	t.Parallel()
	client, full := redistest.Client(t), false
	store, err := agenda.New(client, agenda.Config{
		Partitions: 1, Settings: func(string, string) agenda.Settings { return agenda.Settings{MaxDefer: time.Hour} },
		Full: func() bool { return full },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Accept(t.Context(), 0, []agenda.Entry{plain("a")}); err != nil {
		t.Fatal(err)
	}
	full = true
	if _, err := store.Accept(t.Context(), 0, []agenda.Entry{plain("b")}); !errors.Is(err, agenda.ErrFull) {
		t.Errorf("accept gives %v", err)
	}
	pulled, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "a", Pull: 1})
	if err != nil {
		t.Fatal(err)
	}
	served, err := store.Take(t.Context(), dispatch.TakeRequest{ID: "b", Capacity: 1, Wakeups: pulled.Pulled})
	if err != nil || len(served.Results) != 1 || len(served.Results[0].Grants) != 1 {
		t.Errorf("served %+v, %v", served, err)
	}
}
