package app_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/redistest"
)

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

// The store itself stands still: whoever asks to have something accepted is told so, and waits no longer than anybody
// does, although the driver would wait for an hour. What is repeated afterwards is accepted once.
func TestTheStoreOnRedisStandsStillAndSaysSo(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	d, r := newDeploymentOn(t, onRedis, redis.URL()), newReceiver(t)
	d.writePolicy(crowdPolicy)
	s := d.settings()
	s.Redis.Options.ReadTimeout, s.Redis.Options.WriteTimeout = time.Hour, time.Hour
	d.startWith(s)
	to := r.server.URL
	d.bulk(r.crowd("first", "default", 1)) // the scripts are known by now
	device := fmt.Appendf(nil, `{"channel":"webhook","to":%q}`, to)
	if status := d.call(http.MethodPut, "/v1/users/cyd/devices/phone", device, nil, nil); status >= 300 {
		t.Fatalf("register a device: status %d", status)
	}
	keyed := http.Header{"Idempotency-Key": {"once"}}
	requests := []struct {
		body   string
		header http.Header
	}{
		{body: fmt.Sprintf(`{"id":"named","user_id":"ada","to":%q}`, to)},
		{body: fmt.Sprintf(`{"user_id":"ben","to":%q}`, to), header: keyed},
		{body: `{"id":"to-devices","user_id":"cyd"}`},
	}
	redis.Freeze()
	for _, request := range requests {
		status, err := d.postWithin(time.Minute, request.body, request.header)
		if err != nil || status != http.StatusServiceUnavailable {
			t.Errorf("%s while Redis stands still: status %d, %v", request.body, status, err)
		}
	}
	redis.Thaw()
	for _, request := range requests {
		for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
			status := d.call(http.MethodPost, "/v1/notifications", []byte(request.body), request.header, nil)
			if status == http.StatusAccepted || status == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s afterwards: status %d", request.body, status)
			}
		}
	}
	all := int64(len(requests) + 1)
	d.awaitStats("all are delivered", func(s stats) bool { return s.Totals.Delivered == all })
	if got := r.got(); len(got) != int(all) {
		t.Errorf("%d arrived, want %d", len(got), all)
	}
}

// postWithin posts a notification, and gives up after some time.
func (d *fleet) postWithin(limit time.Duration, body string, header http.Header) (status int, err error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.apps[0].Addr()+"/v1/notifications",
		bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	request.Header = header.Clone()
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := apitest.Once.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
