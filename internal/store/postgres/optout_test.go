package postgres_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Many clicks at once, in several e-mails and several times in each: every one counts, none twice, and whatever else
// the user wants stays.
func TestClicksAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	w := endWorld(t)
	before := &notification.Preferences{
		OptOutCategories: []string{"old"}, OptOutChannels: []string{"log"}, TimeZone: "Europe/Vienna",
		Limits: map[string]json.RawMessage{"chat": json.RawMessage(`{"limits": []}`)},
	}
	if err := w.store.SetPreferences(t.Context(), "ada", before); err != nil {
		t.Fatal(err)
	}
	want := []string{"old"}
	var clicks sync.WaitGroup
	for i := range 24 {
		category := fmt.Sprint("letter", i%8)
		if !slices.Contains(want, category) {
			want = append(want, category)
		}
		for _, user := range []string{"ada", "new"} {
			clicks.Go(func() {
				if err := w.store.OptOut(t.Context(), user, category); err != nil {
					t.Error(err)
				}
			})
		}
	}
	clicks.Wait()
	for user, want := range map[string][]string{"ada": want, "new": want[1:]} {
		got, err := w.store.Preferences(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got.OptOutCategories)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got.OptOutCategories); diff != "" {
			t.Errorf("%s opted out of (-want +got):\n%s", user, diff)
		}
		if user == "ada" && (got.TimeZone != before.TimeZone || len(got.Limits) != 1 || len(got.OptOutChannels) != 1) {
			t.Errorf("what else %s wants is %+v", user, got)
		}
	}
}

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
