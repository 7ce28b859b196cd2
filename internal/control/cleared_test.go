package control_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/control"
)

// keepsWhoWasCleared: whose windows were cleared is known for long, whatever else the audit log has since then.
func keepsWhoWasCleared(t *testing.T, store control.Store) {
	before := time.Now().Add(-time.Minute) // the database has a clock of its own
	note := func(action, subject string) {
		t.Helper()
		if err := store.Note(t.Context(), control.Entry{By: "API", Action: action, Subject: subject}); err != nil {
			t.Fatal(err)
		}
	}
	note(control.Cleared, "ada")
	note(control.Cleared, "ben")
	for range 1000 {
		note("cancel", "n1")
	}
	note(control.Cleared, "ben")
	for since, want := range map[time.Time][]string{
		before: {"ada", "ben"}, time.Now().Add(time.Minute): nil,
	} {
		cleared, err := store.ClearedSince(t.Context(), since)
		if got := slices.Sorted(maps.Keys(cleared)); err != nil || !slices.Equal(got, want) {
			t.Errorf("since %s were cleared %v, %v; want %v", since, got, err, want)
		}
	}
}
