package postgres_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
)

// A process dies between the two steps of a change: Postgres has it, and Redis has not. The relay tells Redis, and so
// does a rebuild.
func TestAChangeMayStopHalfway(t *testing.T) {
	t.Parallel()
	for name, heal := range map[string]func(w *world){
		"Relay":   func(w *world) { w.overdue(t); w.round(t) },
		"Rebuild": func(w *world) { w.loseRedis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := endWorld(t)
			w.accept(t, "ada", "chat", 5)
			w.wantNothingLeft(t)
			w.deliver(t, "ada")
			w.deliver(t, "ada") // the others wait
			half := w.process(t, postgres.Config{}, func(*process) error { return errDied })
			later := time.Now().Add(time.Hour)
			for id, c := range map[string]notification.Change{
				"ada-chat-2": {SendAt: &later}, "ada-chat-3": {Priority: notification.PriorityLow}, "ada-chat-4": {Release: true},
			} {
				if err := half.store.Change(t.Context(), id, c); err != nil {
					t.Fatal(err)
				}
			}
			heal(w)
			w.wantDelivered(t, "ada", "ada-chat-4")
			w.wantView(t, "ada-chat-2", notification.StatusScheduled)
			if v := w.wantView(t, "ada-chat-3", notification.StatusDeferred); v.Priority != notification.PriorityLow {
				t.Errorf("its priority is %s", v.Priority)
			}
			w.overdue(t)
			w.round(t)
			w.wantNothingLeft(t)
		})
	}
}

// wantView looks a notification up, and wants a status.
func (w *world) wantView(t *testing.T, id string, want notification.Status) *notification.View {
	t.Helper()
	v, err := w.store.View(t.Context(), id)
	if err != nil || v.Status != want {
		t.Fatalf("%s: %+v, %v, want %s", id, v, err, want)
	}
	return v
}

// A grant from before a change is for another moment than the one that the notification waits for now: it can't be
// claimed.
func TestAChangeForbidsTheGrantBefore(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.acceptOne(t, notification.Notification{ID: "n"})
	g, later := w.ask(t, "ada", 1).Grants[0], time.Now().Add(time.Hour)
	if err := w.store.Change(t.Context(), "n", notification.Change{SendAt: &later}); err != nil {
		t.Fatal(err)
	}
	if w.claim(t, g) {
		t.Error("it is claimed an hour too early")
	}
	w.overdue(t)
	w.round(t)
	w.wantView(t, "n", notification.StatusScheduled)
	w.wantNothingLeft(t)
}
