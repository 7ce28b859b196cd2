package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// later is what a notification that waits for its next attempt shows.
type later struct {
	Status    string
	Reason    string
	DeliverAt time.Time `json:"deliver_at"`
}

// awaitEnd asks for a notification until it is retrying or has ended.
func (d *fleet) awaitEnd(id string) (v later) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		if status := d.call(http.MethodGet, "/v1/notifications/"+id, nil, nil, &v); status != http.StatusOK {
			d.t.Fatalf("notification %s: status %d", id, status)
		}
		if v.Status == "retrying" || v.Status == "failed" || v.Status == "delivered" {
			return v
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("notification %s is %+v", id, v)
		}
	}
}

// A policy's schedule, time-out and final responses hold in a running process, and a changed file at once.
func TestDeliveriesFollowThePolicy(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]setup{"Redis": onRedis, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the caller has gone
				if r.URL.Path == "/hangs" {
					<-r.Context().Done()
					return
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			t.Cleanup(server.Close)
			d := newDeployment(t, on, `version: 1
categories:
  default: {}
  once: {webhook: {final: [404]}}
  quick: {timeout: 200ms, concurrency: 2}
channels: {webhook: {retry: {schedule: [2h]}}}
`, 1)
			send := func(category, path string) later {
				t.Helper()
				return d.awaitEnd(d.bulk([]item{{
					"user_id": "ada", "category": category, "to": server.URL + path, "title": "Hello",
				}})[0])
			}
			for _, c := range []struct{ category, path, status, reason string }{
				{category: "default", path: "/gone", status: "retrying", reason: "transient: 404"},
				{category: "once", path: "/gone", status: "failed", reason: "permanent: 404"},
				{category: "quick", path: "/hangs", status: "retrying", reason: "ambiguous: timeout"},
			} {
				v := send(c.category, c.path)
				if v.Status != c.status || v.Reason != c.reason {
					t.Errorf("%s: %+v, want %s (%s)", c.category, v, c.status, c.reason)
				}
				if wait := time.Until(v.DeliverAt); v.Status == "retrying" &&
					(wait < 100*time.Minute || wait > 135*time.Minute) {
					t.Errorf("%s: the next attempt is at %s, want it about two hours away", c.category, v.DeliverAt)
				}
			}
			d.writePolicy("version: 1\ncategories: {default: {webhook: {final: [4xx]}}}\n")
			for deadline := time.Now().Add(patience); ; {
				v := send("default", "/gone")
				if strings.HasPrefix(v.Reason, "permanent") {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("under the changed policy: %+v", v)
				}
			}
		})
	}
}
