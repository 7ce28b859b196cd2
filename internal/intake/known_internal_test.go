package intake

import (
	"errors"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
)

// A key whose request named the id of another user's notification was never accepted. A repeat is a conflict, as the
// first was, and shows nothing of the other user's.
func TestAKeyShowsNothingOfAnotherUser(t *testing.T) {
	t.Parallel()
	theirs := &notification.Notification{ID: "taken", UserID: "ben", Title: "secret"}
	for _, made := range []bool{false, true} {
		mine := &notification.Notification{ID: "taken", UserID: "ada"}
		r := known(Reservation{ID: "taken"}, theirs, mine, made)
		conflict, ok := errors.AsType[*notification.ConflictError](r.Err)
		if !ok || r.Notification != nil || conflict.ID != "taken" {
			t.Errorf("from a template %t: %+v, want a conflict", made, r)
		}
	}
}
