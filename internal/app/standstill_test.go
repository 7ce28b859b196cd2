package app_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Redis stands still for as long as it likes: what Postgres has committed is accepted at once, one by one, many at
// once and repeated, and goes out when Redis moves again. The driver itself would wait for an hour.
func TestRedisStandsStillAndAcceptsGoOn(t *testing.T) {
	t.Parallel()
	d := newDurable(t, 0)
	s := d.settings()
	s.Redis.Options.ReadTimeout, s.Redis.Options.WriteTimeout = time.Hour, time.Hour
	d.startWith(s)
	d.verify(d.bulk(d.receiver.crowd("first", "default", 1))) // the partitions are built by now
	d.redis.Freeze()
	thawed := false
	defer func() {
		if !thawed {
			d.redis.Thaw()
		}
	}()
	ids := d.bulk(d.receiver.crowd("many", "default", 8))
	for i := range 12 {
		body := fmt.Appendf(nil, `{"id":"single-%d","user_id":"user%d","to":%q}`, i, i, d.receiver.server.URL)
		for range 2 {
			if status := d.call(http.MethodPost, "/v1/notifications", body, nil, nil); status != http.StatusAccepted &&
				status != http.StatusOK {
				t.Fatalf("while Redis stands still: status %d", status)
			}
		}
		ids = append(ids, fmt.Sprint("single-", i))
	}
	if got := len(d.receiver.got()); got != 1 {
		t.Errorf("%d went out while Redis stood still", got-1)
	}
	d.redis.Thaw()
	thawed = true
	d.verify(append(ids, d.receiver.got()[0].ID))
}
