package postgres_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/test/redistest"
)

// wantOnTheWay checks which notifications of ada may not be in their backlogs yet, and in which order.
func (w *world) wantOnTheWay(t *testing.T, want ...string) []*notification.Notification {
	t.Helper()
	found, err := outbox.OnTheWay(t.Context(), w.store.Stores, []string{"ada", "eve"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, n := range found {
		ids = append(ids, n.ID)
	}
	if !slices.Equal(ids, want) {
		t.Errorf("on the way are %v, want %v", ids, want)
	}
	return found
}

// What a process accepts while its Redis stands still is on its way until Redis has it, and only for its user.
func TestAcceptedNotificationsAreOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.wantOnTheWay(t)
	s := w.standing(t, postgres.Config{PlacePatience: 10 * time.Millisecond})
	s.accept(t, batchOf("bob", "free", 2))
	s.accept(t, batchOf("ada", "free", 2))
	w.wantOnTheWay(t) // a moment ago
	s.accept(t, []*notification.Notification{{
		ID: "third", UserID: "ada", Category: "chat", Channel: notification.ChannelLog,
		Priority: notification.PriorityHigh, CollapseKey: "k", ExpiresAt: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}})
	w.exec(t, `SELECT pacer.enqueue('{"id": "unchecked", "user_id": "ada", "channel": "log"}')`)
	w.later(t, 2*time.Minute)
	found := w.wantOnTheWay(t, "ada-free-000", "ada-free-001", "third")
	if n := found[2]; n.UserID != "ada" || n.Category != "chat" || n.Channel != notification.ChannelLog ||
		n.Priority != notification.PriorityHigh || n.CollapseKey != "k" || n.ExpiresAt.Year() != 2100 ||
		!n.SendAt.IsZero() || n.CreatedAt.IsZero() {
		t.Errorf("the one in the outbox is %+v", n)
	}
	s.goOn()
	w.round(t)
	w.wantNothingLeft(t)
	w.wantOnTheWay(t)
}

// A retry on its way is due at its own moment. One that is being sent has its slot.
func TestOnlyWhatWaitsIsOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.accept(t, "ada", "free", 3)
	w.exec(t, "UPDATE pacer.notifications SET status = 'sending' WHERE id = 'ada-free-0'")
	w.exec(t, `UPDATE pacer.notifications SET status = 'retrying', not_before = 4102444800000000, send_at = '2099-01-01'
		WHERE id = 'ada-free-2'`)
	w.exec(t, "INSERT INTO pacer.outbox (key, ids, due_at) SELECT '~' || id, ARRAY[id], '2000-01-01' FROM pacer.notifications")
	found := w.wantOnTheWay(t, "ada-free-1", "ada-free-2")
	if at := found[1].SendAt; at.Year() != 2100 {
		t.Errorf("the retry is due at %s, want 2100", at)
	}
}

// However much is on the way, a look at it is bounded: by how many are the users', and by how many there are.
func TestTooManyOnTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ada, bob int
		want     error
	}{
		"as many as are counted":        {ada: 500},
		"too many of the user":          {ada: 501, want: outbox.ErrLags},
		"as many as are looked at":      {ada: 1, bob: 4999},
		"too many of all users":         {ada: 1, bob: 5000, want: outbox.ErrLags},
		"too many of other users alone": {bob: 5001, want: outbox.ErrLags},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			w.exec(t, `INSERT INTO pacer.notifications (id, user_id, category, channel, priority)
				SELECT 'n' || i, CASE WHEN i <= $1 THEN 'ada' ELSE 'bob' END, 'free', 'log', 3
				FROM generate_series(1, $1::int + $2::int) i`, c.ada, c.bob)
			w.later(t, time.Minute)
			found, err := outbox.OnTheWay(t.Context(), w.store.Stores, []string{"ada"})
			if !errors.Is(err, c.want) || err == nil && len(found) != c.ada {
				t.Errorf("found %d of %d, error %v, want %v", len(found), c.ada, err, c.want)
			}
		})
	}
}
