package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/transfer"
	"github.com/pacer-notify/pacer/test/redistest"
)

// kept is a store on Redis that holds batches of notifications.
type kept [][]transfer.Notification

// Export implements [transfer.Source].
func (k kept) Export(_ context.Context, give func(*transfer.Batch) error) error {
	for _, notifications := range k {
		if err := give(&transfer.Batch{Notifications: notifications}); err != nil {
			return err
		}
	}
	return nil
}

// keptOf is a notification that waits in a store on Redis.
func keptOf(user, id string) transfer.Notification {
	return transfer.Notification{Status: "waiting", Notification: notification.Notification{
		ID: id, UserID: user, Category: "chat", Channel: notification.ChannelLog, CreatedAt: time.Now(),
		Priority: notification.PriorityNormal,
	}}
}

// To import what is there already adds nothing. An id that two users have would lose the notification of one of them:
// such an import is refused as a whole, and names what to do.
func TestImportRefusesAnIDOfTwoUsers(t *testing.T) {
	t.Parallel()
	ada, ben, finn := keptOf("ada", "same"), keptOf("ben", "same"), keptOf("finn", "other")
	for name, c := range map[string]struct {
		source  kept
		refused bool
	}{
		"Repeated":  {source: kept{{ada, finn}, {ada}, {finn, ada, finn}}},
		"InABatch":  {source: kept{{ada, ben, finn}}, refused: true},
		"InBatches": {source: kept{{ada}, {finn}, {ben}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, redistest.Client(t))
			_, err := w.store.Import(t.Context(), c.source, []string{"chat"})
			rows := 0
			if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM pacer.notifications").Scan(&rows); err != nil {
				t.Fatal(err)
			}
			if !c.refused {
				if err != nil || rows != 2 {
					t.Errorf("%d rows, %v; want both notifications", rows, err)
				}
				return
			}
			remove := agenda.PartitionPrefix(w.agendas.PartitionOf("ben")) + "n:same"
			said := fmt.Sprint(err)
			if !strings.Contains(said, `"ada" and "ben"`) || !strings.Contains(said, remove) {
				t.Errorf("the import returns %v; want the users, and the key %s", err, remove)
			}
			if rows != 0 {
				t.Errorf("%d rows are there, want none", rows)
			}
		})
	}
}

// A claim on Redis may end before its notification. So a key may have had several, and one of them keeps it.
func TestImportLeavesAKeyToOneNotification(t *testing.T) {
	t.Parallel()
	of := func(id, key string) transfer.Notification {
		n := keptOf("ada", id)
		n.IdempotencyKey, n.Fingerprint = key, "body"
		return n
	}
	w := newWorld(t, redistest.Client(t))
	source := kept{{of("n1", "key"), of("n2", "key"), of("n3", "")}, {of("n4", "key"), of("n5", "other")}}
	for range 2 {
		if _, err := w.store.Import(t.Context(), source, []string{"chat"}); err != nil {
			t.Fatal(err)
		}
		var rows int
		var keys string
		if err := w.pool.QueryRow(t.Context(), `SELECT count(*), string_agg(id || ' ' || idempotency_key, ',' ORDER BY id)
			FROM pacer.notifications`).Scan(&rows, &keys); err != nil || rows != 5 || keys != "n1 key,n5 other" {
			t.Errorf("%d rows, with the keys %q, %v", rows, keys, err)
		}
	}
}
