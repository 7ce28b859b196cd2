package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const fullPolicy = "version: 1\ncategories: {default: {}}\n"

// fill takes all memory that a Redis has left, but for part of it; free gives it back.
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
		if limit == 0 {
			t.Fatal("Redis has no limit")
		}
		if used >= part*limit {
			break
		}
		key := fmt.Sprint("filler:", i)
		if err := client.Set(t.Context(), key, block, 0).Err(); err != nil {
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

// smallRedis is a deployment on a Redis with little memory.
func smallRedis(t *testing.T, on setup) (*fleet, *redistest.Server, *goredis.Client) {
	t.Helper()
	redis := redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction")
	d := newDeploymentOn(t, on, redis.URL())
	d.writePolicy(fullPolicy)
	d.start()
	options, err := goredis.ParseURL(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return d, redis, client
}

// A full Redis refuses grants and takes settlements: what was sent while it filled up is settled, what waits is held,
// and once there is memory again all goes out, each once. Before it is full, nothing more is accepted where it keeps
// the store; Postgres goes on accepting. All counts are exact in the end.
func TestRedisFillsUp(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, _, client := smallRedis(t, on)
			r := newReceiver(t)
			release := make(chan struct{})
			respond := sync.OnceFunc(func() { close(release) })
			t.Cleanup(respond)
			arrived := make(chan struct{}, 1000)
			r.respond = func(_ arrival, w http.ResponseWriter) {
				arrived <- struct{}{}
				<-release
				w.WriteHeader(http.StatusNoContent)
			}
			sending := d.bulk(r.crowd("ada", "default", 3)) // fewer than may be in flight to one host
			for range sending {
				<-arrived
			}
			free := fill(t, client, 1)

			// Those in flight end while Redis is full.
			respond()
			for _, id := range sending {
				d.awaitDelivered(id)
			}
			if n := len(r.got()); n != len(sending) {
				t.Errorf("%d were sent while Redis was full, %d before", n, len(sending))
			}
			d.awaitMetric("pacer_redis_memory_ratio", func(v float64) bool { return v >= 0.9 })

			body := []byte(`{"user_id":"ben","to":"` + r.server.URL + `"}`)
			more := 0
			switch on {
			case onRedis:
				d.awaitRefusal(body)
			case onPostgres:
				for range 20 {
					if status := d.callOnce(http.MethodPost, "/v1/notifications", body, nil); status != http.StatusAccepted {
						t.Fatalf("Postgres has room, and POST returns %d", status)
					}
					more++
				}
			}
			if n := len(r.got()); n != len(sending) {
				t.Errorf("%d were sent while Redis was full, %d before", n, len(sending))
			}

			free()
			d.awaitMetric("pacer_redis_memory_ratio", func(v float64) bool { return v < 0.85 })
			if status := d.callOnce(http.MethodPost, "/v1/notifications", body, nil); status != http.StatusAccepted {
				t.Errorf("with memory again: POST returns %d", status)
			}
			all := int64(len(sending) + more + 1)
			s := d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == all })
			if s.Totals.Accepted != all || s.Totals.Attempts != all || len(r.got()) != int(all) {
				t.Errorf("totals %+v and %d arrivals, want %d of each", s.Totals, len(r.got()), all)
			}
		})
	}
}

// What became of a notification on each device is noted while Redis is full, too: a retry goes to the device that
// failed, and not again to the one that has it, and a device that is gone is not tried any more.
func TestDevicesAreSettledWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	d, redis, _ := smallRedis(t, onRedis)
	release := make(chan struct{})
	respond := sync.OnceFunc(func() { close(release) })
	t.Cleanup(respond)
	arrived := make(chan struct{}, 100)
	receivers := map[string]*receiver{}
	for device, first := range map[string]int{
		"phone": http.StatusNoContent, "desk": http.StatusServiceUnavailable, "gone": http.StatusGone,
	} {
		r := newReceiver(t)
		r.respond = func(a arrival, w http.ResponseWriter) {
			arrived <- struct{}{}
			<-release
			if a.Attempt == 1 {
				w.WriteHeader(first)
			}
		}
		receivers[device] = r
		d.register("ada", device, r.server.URL)
	}
	id := d.bulk([]item{{"user_id": "ada"}})[0]
	for range receivers {
		<-arrived
	}
	redis.ConfigSet("maxmemory", "1") // everything is more than that
	respond()
	d.awaitView(id, "retrying", "")
	redis.ConfigSet("maxmemory", "64mb")
	d.awaitDelivered(id)
	for device, want := range map[string]int{"phone": 1, "desk": 2, "gone": 1} {
		if n := len(receivers[device].got()); n != want {
			t.Errorf("the %s got %d, want %d", device, n, want)
		}
	}
	for _, device := range d.devices("ada") {
		if device.Active == (device.ID == "gone") {
			t.Errorf("kept as %+v", device)
		}
	}
}

// What waits has room to be delivered when nothing more is accepted.
func TestNearlyFullRedisDrains(t *testing.T) {
	t.Parallel()
	d, _, client := smallRedis(t, onRedis)
	r := newReceiver(t)
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "category", Name: "default"})
	ids := d.bulk(r.crowd("ada", "default", 400))
	fill(t, client, 0.92)
	d.awaitMetric("pacer_redis_memory_ratio", func(v float64) bool { return v >= 0.9 })
	d.awaitRefusal([]byte(`{"user_id":"ben","to":"` + r.server.URL + `"}`))
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "resume", Kind: "category", Name: "default"})
	d.awaitStats("all delivered", func(s stats) bool { return s.Totals.Delivered == int64(len(ids)) })
	if n := len(r.got()); n != len(ids) {
		t.Errorf("%d arrived, want %d", n, len(ids))
	}
}

// awaitDelivered waits until a notification is.
func (d *fleet) awaitDelivered(id string) {
	d.t.Helper()
	d.awaitView(id, "delivered", "")
}

// awaitView waits until a notification is shown with a status, and with a reason unless that is empty. With Postgres,
// one is shown as queued for as long as Redis takes long to respond.
func (d *fleet) awaitView(id, status, reason string) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		v := d.view(id)
		if v.Status == status && (reason == "" || v.Reason == reason) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("notification %s is %+v, want it %s %s", id, v, status, reason)
		}
	}
}

// awaitRefusal waits until nothing more is accepted, and checks how that is said.
func (d *fleet) awaitRefusal(body []byte) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.apps[0].Addr()+"/v1/notifications",
			strings.NewReader(string(body)))
		if err != nil {
			d.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := apitest.Once.Do(request)
		if err != nil {
			d.t.Fatal(err)
		}
		text := make([]byte, 1000)
		n, _ := response.Body.Read(text)
		_ = response.Body.Close()
		if response.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(string(text[:n]), "the queue is full") {
			if response.Header.Get("Retry-After") == "" {
				d.t.Error("the refusal does not say when to try again")
			}
			return
		}
		d.t.Fatalf("POST returns %d %s", response.StatusCode, text[:n])
	}
}

// awaitMetric waits until a gauge has such a value.
func (d *fleet) awaitMetric(name string, ok func(float64) bool) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, body := page(d.t, d.apps[0], "/metrics")
		value := -1.0
		for line := range strings.Lines(body) {
			if rest, found := strings.CutPrefix(line, name+" "); found {
				_, _ = fmt.Sscanf(rest, "%g", &value)
			}
		}
		if value >= 0 && ok(value) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s is %g", name, value)
		}
	}
}
