//go:build accept

package postgres_test

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A page of a million rows, 5,000 of them failed: the time of the slowest of 20 pages for each kind of filter.
func TestListOfAMillion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Client(t))
	w.exec(t, "SET session_replication_role = replica; "+`INSERT INTO pacer.notifications
		(id, user_id, category, channel, target, title, body, priority, accepted_at, status, reason, ended_at)
		SELECT 'n' || i, 'user' || i % 10000, CASE WHEN i % 1000 = 7 THEN 'rare' ELSE 'chat' END, 'webhook',
			'https://host' || i % 50 || '.example/hook', 'Order ' || i, repeat('x', 200), 3,
			now() - i * interval '1 second', CASE WHEN i % 200 = 0 THEN 'failed' ELSE 'delivered' END,
			CASE WHEN i % 200 = 0 THEN 'permanent: 400' ELSE 'delivered' END, now() - i * interval '1 second'
		FROM generate_series(1, 1000000) i; SET session_replication_role = origin; ANALYZE pacer.notifications`)
	store := postgres.New(w.pool, w.agendas, postgres.Config{})
	defer func() { _ = store.Close() }()
	failed := []notification.Status{notification.StatusFailed, notification.StatusExpired}
	for name, f := range map[string]notification.Filter{
		"all": {}, "user": {UserID: "user7"}, "failed": {Statuses: failed},
		"failed, host and reason": {Statuses: failed, Host: "host0.example", Reason: "permanent"},
		"failed, rare category":   {Statuses: failed, Category: "rare"},
		"delivered, rare category": {
			Statuses: []notification.Status{notification.StatusDelivered}, Category: "rare",
		},
		"host": {Host: "host7.example"}, "reason that none has": {Reason: "transient"},
		"text": {Text: "order 77777"}, "text that none has": {Text: "nothing like it"},
		"long ago": {Until: time.Now().Add(-200 * time.Hour), Category: "rare"},
		"waiting":  {Statuses: []notification.Status{notification.StatusDeferred}},
		"everything at once": {
			UserID: "user7", Statuses: failed, Category: "rare", Channel: "webhook", Reason: "p", Host: "host7.example",
			Text: "order", Since: time.Now().Add(-300 * time.Hour),
		},
	} {
		f.Limit = 100
		var slowest time.Duration
		pages, items := 0, 0
		for ; pages < 20 && (pages == 0 || f.Cursor != ""); pages++ {
			began := time.Now()
			page, err := store.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			slowest, items, f.Cursor = max(slowest, time.Since(began)), items+len(page.Items), page.Next
		}
		t.Logf("%-26s %2d pages, %4d items, slowest %s", name, pages, items, slowest.Round(100*time.Microsecond))
	}
}
