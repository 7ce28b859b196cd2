package migrations_test

import (
	"testing"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

// Whatever writes a notification notes it in the outbox: a large statement in rows of bounded size, pacer.enqueue as
// unchecked. A repeat is not noted.
func TestAcceptedNotificationsAreInTheOutbox(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	for _, sql := range []string{
		`INSERT INTO pacer.notifications (id, user_id, category, channel, priority)
			SELECT 'n' || i, 'ada', 'chat', 'log', 3 FROM generate_series(1, 2500) i`,
		`SELECT pacer.enqueue('{"id":"own","user_id":"ada"}')`,
		`SELECT pacer.enqueue('{"id":"own","user_id":"ada"}')`,
		`INSERT INTO pacer.notifications (id, user_id, category, channel, priority) VALUES ('by hand', 'ada', 'chat', 'log', 3)`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for sql, want := range map[string]int{
		"SELECT count(*) FROM pacer.outbox":                                                  5,
		"SELECT max(cardinality(ids)) FROM pacer.outbox":                                     1000,
		"SELECT sum(cardinality(ids)) FROM pacer.outbox WHERE NOT unchecked":                 2501,
		"SELECT count(*) FROM pacer.outbox WHERE unchecked AND key = 'own'":                  1,
		"SELECT count(*) FROM pacer.outbox WHERE key = 'by hand' AND ids = ARRAY['by hand']": 1,
	} {
		if got := count(t, conn, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}
