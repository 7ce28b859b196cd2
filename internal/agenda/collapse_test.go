package agenda_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
)

// A notification whose hash was evicted is placed again: what is left of it under its collapse key is itself, and no
// newer one.
func TestNothingReplacesItself(t *testing.T) {
	t.Parallel()
	w := setup(t, agenda.Settings{})
	id := w.accept(agenda.Entry{CollapseKey: "k"})
	keys, err := w.client.Keys(t.Context(), "pacer:{push-*}:n:"+id).Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the hash is one of %v (%v)", keys, err)
	}
	if err := w.client.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	w.accept(agenda.Entry{ID: id, CollapseKey: "k"}) // as the relay does
	w.drain()
	if s, total := w.state(id), w.total().Totals; s.Status != notification.StatusDelivered || total.Replaced != 0 {
		t.Errorf("it is %s (%s), and %d were replaced", s.Status, s.Reason, total.Replaced)
	}
}
