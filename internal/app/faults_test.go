package app_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// faultPolicy throttles enough that most of what a fault meets waits.
const faultPolicy = `
version: 1
categories:
  default:
    limits: [{max: 5, per: 1s}, {max: 12, per: 4s}]
    min_gap: 20ms
user_cap: {limits: [{max: 12, per: 4s}]}
retry: {max_attempts: 5, min_backoff: 100ms, max_backoff: 1s}
`

var faultRules = []throttle.Rule{
	{Max: 5, Per: time.Second}, {Max: 12, Per: 4 * time.Second}, {Max: 1, Per: 20 * time.Millisecond},
}

// durable is a fleet on servers of its own, which tests may do to what they like.
type durable struct {
	*fleet
	redis    *redistest.Server
	postgres *postgrestest.Server
	receiver *receiver
}

func newDurable(t *testing.T, processes int, redisArgs ...string) *durable {
	t.Helper()
	d := &durable{redis: redistest.Start(t, redisArgs...), postgres: postgrestest.Start(t), receiver: newReceiver(t)}
	d.postgres.Migrate()
	d.fleet = &fleet{t: t, redisURL: d.redis.URL(), databaseURL: d.postgres.URL()}
	d.policy = filepath.Join(t.TempDir(), "policy.yaml")
	d.writePolicy(faultPolicy)
	for range processes {
		d.start()
	}
	return d
}

// load accepts n notifications for each of some users, and waits until the first wave of them has gone out.
func (d *durable) load(users, n int) []string {
	d.t.Helper()
	var items []item
	for i := range n * users {
		items = append(items, item{
			"user_id": fmt.Sprint("user", i%users), "to": d.receiver.server.URL, "title": fmt.Sprint(i),
		})
	}
	ids := d.bulk(items)
	d.receiver.await(d.t, 5*users)
	return ids
}

// verify waits until all have ended and checks that none was lost, doubled or too early.
func (d *durable) verify(ids []string) {
	d.t.Helper()
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("counts: %+v", d.stats())
		}
	})
	d.receiver.await(d.t, len(ids))
	for _, id := range ids {
		d.awaitDelivered(id)
	}
	users, seen := map[string][]throttle.Micros{}, map[string]int{}
	for _, a := range d.receiver.got() {
		users[a.User] = append(users[a.User], a.AdmittedAt)
		seen[a.ID]++
	}
	for _, id := range ids {
		if seen[id] != 1 {
			d.t.Errorf("notification %s was delivered %d times", id, seen[id])
		}
	}
	for user, admitted := range users {
		if n := violations(admitted, faultRules...); n != 0 {
			d.t.Errorf("%s: %d violations", user, n)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*durable){
		"FlushAll":           func(d *durable) { d.redis.FlushAll() },
		"RedisRestartsEmpty": func(d *durable) { d.redis.Restart() },
		"PostgresRestarts":   func(d *durable) { d.postgres.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDurable(t, 2)
			ids := d.load(10, 24)
			fault(d)
			d.verify(ids)
		})
	}
}

// What a process accepted and did not get into Redis, because it died in between, is found by looking for it.
func TestWhatNeverReachedRedisIsFound(t *testing.T) {
	t.Parallel()
	d := newDurable(t, 2)
	d.verify(d.bulk(d.receiver.crowd("first", "default", 1))) // the partitions are built by now
	d.postgres.Exec(`INSERT INTO pacer.notifications (id, user_id, category, channel, target, priority)
		SELECT 'lost-' || i, 'user' ||
			i, 'default', 'webhook', '` + d.receiver.server.URL + `', 3 FROM generate_series(1, 20) i`)
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprint("lost-", i+1))
	}
	d.verify(ids)
}

func TestAcceptsWithoutRedisAndRefusesWithoutPostgres(t *testing.T) {
	t.Parallel()
	d := newDurable(t, 1)
	body := []byte(`{"user_id":"ada","to":"` + d.receiver.server.URL + `"}`)
	d.redis.Kill()
	var reply struct{ ID string }
	if status := d.callOnce(http.MethodPost, "/v1/notifications", body, &reply); status != http.StatusAccepted {
		t.Errorf("without Redis: status %d, want 202", status)
	}
	d.redis.Restart()
	d.verify([]string{reply.ID})

	d.postgres.Freeze()
	start := time.Now()
	if status := d.callOnce(http.MethodPost, "/v1/notifications", body, nil); status != http.StatusServiceUnavailable {
		t.Errorf("without Postgres: status %d, want 503", status)
	}
	t.Logf("503 after %s", time.Since(start))
	d.postgres.Thaw()
	if status := d.call(http.MethodPost, "/v1/notifications", body, nil, nil); status != http.StatusAccepted {
		t.Errorf("after Postgres came back: status %d, want 202", status)
	}
}
