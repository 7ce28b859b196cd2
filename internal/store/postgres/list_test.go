package postgres_test

import (
	"testing"

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
		"status = 'retrying', reason = 'transient: 503', not_before = now()",
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
