package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// fill takes part of all the memory that a Redis has; free gives it back.
func fill(t *testing.T, client *goredis.Client, part float64) (free func()) {
	t.Helper()
	block := strings.Repeat("x", 20_000)
	var keys []string
	for i := 0; ; i++ {
		var used, limit float64
		for line := range strings.Lines(client.Info(t.Context(), "memory").Val()) {
			_, _ = fmt.Sscanf(line, "used_memory:%f", &used)
			_, _ = fmt.Sscanf(line, "maxmemory:%f", &limit)
		}
		key := fmt.Sprint("filler:", i)
		if used >= part*limit || client.Set(t.Context(), key, block, 0).Err() != nil {
			break
		}
		keys = append(keys, key)
	}
	return func() {
		t.Helper()
		if err := client.Del(t.Context(), keys...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Where Redis keeps the store, a Redis that is nearly full accepts nothing more, and what waits has room to be
// delivered. With Postgres, accepting goes on.
func TestNearlyFullRedis(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
			d, r := newDeploymentOn(t, on, redis.URL()), newReceiver(t)
			d.run(d.settings)
			d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "category", Name: "urgent"})
			var items []item
			for i := range 100 {
				items = append(items, r.crowd(fmt.Sprint("user", i), "urgent", 1)...)
			}
			d.bulk(items)
			free := fill(t, redis.Client(t), 0.92)
			body, want := []byte(`{"user_id":"ben","channel":"log"}`), int64(len(items)+1)
			if on == onPostgres {
				if status := d.callOnce(http.MethodPost, "/v1/notifications", body, nil); status != http.StatusAccepted {
					t.Errorf("Postgres has room, and POST returns %d", status)
				}
				want++
			} else {
				d.eventually("nothing more is accepted", func() bool {
					status, said := d.request(apitest.Once, "POST /v1/notifications "+string(body))
					if status == http.StatusAccepted {
						want++
					}
					return status == http.StatusServiceUnavailable && strings.Contains(said, "the queue is full")
				})
			}
			d.act(d.apps[0], http.StatusOK, ops.Action{Action: "resume", Kind: "category", Name: "urgent"})
			r.await(t, len(items))
			free()
			d.ask(http.MethodPost, "/v1/notifications", string(body))
			s := d.awaitStats("all are delivered", func(s stats) bool { return s.Totals.Delivered == want })
			if s.Totals.Accepted != want || len(r.got()) != len(items) {
				t.Errorf("totals %+v and %d arrivals, want %d and %d", s.Totals, len(r.got()), want, len(items))
			}
		})
	}
}
