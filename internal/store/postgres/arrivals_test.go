package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What was accepted is read once and in order, over several pages, also where many came at one moment.
func TestArrivalsAreReadInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Mini(t))
	begun := time.Now().Add(-time.Hour).Truncate(time.Second)
	w.exec(t, `INSERT INTO pacer.notifications (id, user_id, category, channel, priority, accepted_at, zone, status, ended_at)
		SELECT to_char(i, 'FM00000'), 'ada', 'chat', 'log', 3, CAST($1 AS timestamptz) + (i / 1500) * interval '1 minute', 'Europe/Vienna', 'failed', now()
		FROM generate_series(0, 3000) i`, begun)
	w.exec(t, `INSERT INTO pacer.preferences (user_id, time_zone) VALUES ('ada', 'Asia/Tokyo')`)
	n, db := 1500, limited.New(w.pool, time.Minute)
	if err := stream.Arrivals(t.Context(), db, begun.Add(time.Second), func(a *stream.Arrival) error {
		if a.ID != fmt.Sprintf("%05d", n) || a.Zone != "Asia/Tokyo" || !a.Failed || !a.SendAt.IsZero() {
			t.Errorf("the %dth: %+v", n, a)
		}
		n++
		return nil
	}); err != nil || n != 3001 {
		t.Errorf("%d, %v", n, err)
	}
}
