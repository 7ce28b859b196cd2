package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/test/redistest"
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

// Redis stands still while a process is told to stop. The process ends, although the driver itself would wait for an
// hour: else it would be killed, with its listeners open.
func TestRedisStandsStillAndAProcessStops(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			redis, r := redistest.Start(t), newReceiver(t)
			d := newDeploymentOn(t, on, redis.URL())
			d.writePolicy(crowdPolicy)
			s := d.settings()
			s.Redis.Options.ReadTimeout, s.Redis.Options.WriteTimeout = time.Hour, time.Hour
			s.DrainTimeout = time.Second
			process, err := app.New(t.Context(), s, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- process.Run(ctx) }()
			d.apps = append(d.apps, process)
			d.bulk(r.crowd("ada", "default", 1))
			r.await(t, 1)
			redis.Freeze()
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(patience):
				t.Error("it waits for Redis")
			}
			redis.Thaw()
			_ = process.Stop(context.WithoutCancel(ctx)) // it ends what Run has left
		})
	}
}
