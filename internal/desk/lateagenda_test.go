package desk_test

import (
	"context"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/notification"
)

// tardy are agendas on a Redis that responds once whoever asked has given up. Up to the last category, nothing else
// makes the asker and the caller wait for each other: the race detector would see no race.
type tardy struct {
	desk.Agendas
	last  string        // the category whose windows are asked for last
	found chan struct{} // closed once the user was found, without them
	asked chan string   // gets each category whose windows were asked for
}

func (t tardy) UserAgenda(ctx context.Context, userID string) (*outlook.UserAgenda, error) {
	found, err := t.Agendas.UserAgenda(context.WithoutCancel(ctx), userID)
	<-ctx.Done()
	return found, err
}

func (t tardy) UserWindows(_ context.Context, _, category string) (outlook.UserWindows, error) {
	t.asked <- category
	if category == t.last {
		<-t.found
	}
	return outlook.UserWindows{}, nil
}

// tardyStore is the store beside such agendas. It knows what waits.
type tardyStore struct {
	desk.Store
	waiting []notification.View
}

func (s tardyStore) Known(context.Context, string, []string) ([]notification.View, error) {
	return s.waiting, nil
}

// A user is looked up without what Redis tells too late. The race detector sees that it disturbs nothing when it comes.
func TestWhatRedisTellsTooLateIsLeftOut(t *testing.T) {
	t.Parallel()
	w := onRedis(t)
	view, err := w.store.View(t.Context(), w.accept(nil).ID)
	if err != nil {
		t.Fatal(err)
	}
	names := w.CategoryNames()
	late := tardy{outlook.Of(w.agendas), names[len(names)-1], make(chan struct{}), make(chan string, len(names))}
	d := desk.New(desk.Config{
		Store: tardyStore{w.store, []notification.View{*view}}, Agendas: late, Policy: w,
		Pauses:        w.control.Pauses,
		Fleet:         func(context.Context) (desk.Fleet, error) { return w.fleet() },
		Endpoint:      func(string) string { return "" },
		CancelledBy:   func(context.Context, string) (string, error) { return "", nil },
		RedisPatience: 2 * time.Second, LookPatience: time.Minute,
	})
	u, err := d.User(t.Context(), "ada")
	close(late.found)
	if err != nil || !u.Partial || len(u.Categories) > 0 {
		t.Errorf("the user is shown as %+v, %v; want a part, without categories", u, err)
	}
	for range names {
		<-late.asked
	}
}
