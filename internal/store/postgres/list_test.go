package postgres_test

import (
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/redistest"
)

// A claim and a retry change no index. Each index more that they wrote would make every delivery slower.
func TestClaimsAndRetriesTouchNoIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	w.accept(t, "ada", "free", 1)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, change := range []string{
		"status = 'sending', generation = 1, attempts = 1, claimed_until = now()",
		"status = 'retrying', reason = 'transient: 503', not_before = admitted_at",
		"status = 'sending', generation = 2, attempts = 2, claimed_until = now()",
	} {
		if _, err := tx.Exec(t.Context(), "UPDATE pacer.notifications SET "+change); err != nil {
			t.Fatal(err)
		}
	}
	var changed, hot int
	if err := tx.QueryRow(t.Context(), `SELECT pg_stat_get_xact_tuples_updated(c), pg_stat_get_xact_tuples_hot_updated(c)
		FROM CAST('pacer.notifications' AS regclass) c`).Scan(&changed, &hot); err != nil {
		t.Fatal(err)
	}
	if changed != 3 || hot != 3 {
		t.Errorf("%d of %d updates touched no index, want all", hot, changed)
	}
}

// A search through long texts reads a bounded part of them for each page, and finds what stands at the end.
func TestASearchReadsABoundedLengthOfText(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	// 30 texts of 250,000 bytes: two to a page.
	w.exec(t, `INSERT INTO pacer.notifications (id, user_id, category, channel, body, priority, accepted_at)
		SELECT 'n' || i, 'ada', 'chat', 'log', repeat('x', 250000) || ' order ' || i, 3, now() - i * interval '1 second'
		FROM generate_series(1, 30) i`)
	store := postgres.New(w.pool, w.agendas, postgres.Config{})
	defer func() { _ = store.Close() }()
	f := notification.Filter{Text: "Order 30", Limit: 100}
	var found []string
	pages := 0
	for more := true; more; more = f.Cursor != "" {
		page, err := store.Find(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		pages, found, f.Cursor = pages+1, append(found, page.IDs...), page.Next
	}
	if pages < 15 || pages > 17 || len(found) != 1 || found[0] != "n30" {
		t.Errorf("found %v on %d pages, want n30 on 15 to 17", found, pages)
	}
}
