package postgres_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
)

// What waits of the category ends, also when a process died between the two steps of the first click. Taking it back
// changes that category alone.
func TestAClickMayBeRepeatedAndTakenBack(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	w.accept(t, "ada", "chat", 2)
	w.accept(t, "ada", "free", 1)
	w.exec(t, `INSERT INTO pacer.preferences (user_id, opt_out_categories) VALUES ('ada', '{chat}')`) // and died
	if err := w.store.OptOut(t.Context(), "ada", "chat"); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]notification.Status{
		"ada-chat-0": notification.StatusCancelled, "ada-chat-1": notification.StatusCancelled,
		"ada-free-0": notification.StatusQueued,
	} {
		if v, err := w.store.View(t.Context(), id); err != nil || v.Status != want {
			t.Errorf("%s is %+v (%v), want %s", id, v, err, want)
		}
	}
	for range 2 {
		if err := w.store.OptIn(t.Context(), "ada", "chat"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.OptIn(t.Context(), "nobody", "chat"); err != nil {
		t.Fatal(err)
	}
	if got, err := w.store.Preferences(t.Context(), "ada"); err != nil || len(got.OptOutCategories) != 0 {
		t.Errorf("afterwards %+v (%v)", got, err)
	}
}
