package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
)

// producer is one that was told of the stores only.
func (d *fleet) producer() *app.Producer {
	d.t.Helper()
	s := d.settings()
	s.WebhookAllow = nil
	producer, err := app.NewProducer(d.t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		d.t.Fatal(err)
	}
	return producer
}

// ask sends a request to a producer, and reads the response into reply.
func (d *fleet) ask(producer *app.Producer, method, path, body string, reply any) (status int) {
	d.t.Helper()
	ctx := context.WithoutCancel(d.t.Context())
	request := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	producer.Handler.ServeHTTP(recorder, request)
	if err := json.Unmarshal(recorder.Body.Bytes(), reply); err != nil {
		d.t.Fatalf("%s: %v", recorder.Body, err)
	}
	return recorder.Code
}

// produce posts a notification to a producer of its own.
func (d *fleet) produce(body string) (status int, reply struct{ ID, Title, Body, Detail string }) {
	d.t.Helper()
	producer := d.producer()
	defer d.closes(producer)
	status = d.ask(producer, http.MethodPost, "/v1/notifications", body, &reply)
	return status, reply
}

func (d *fleet) closes(producer *app.Producer) {
	d.t.Helper()
	if err := producer.Close(); err != nil {
		d.t.Error(err)
	}
}

// A producer that lives for long goes by the preferences and the policy of now.
func TestAProducerFollowsItsDeployment(t *testing.T) {
	t.Parallel()
	for _, where := range keepsPreferences {
		t.Run(string(where), func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, where, crowdPolicy, 1)
			producer := d.producer()
			defer d.closes(producer)
			d.put(`{"quiet_until": "` + time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339) + `"}`)
			d.eventually("the producer knows the changed preferences", func() bool {
				var throttle struct{ Allowed bool }
				d.ask(producer, http.MethodGet, "/v1/users/ada/throttle?category=default", "", &throttle)
				return !throttle.Allowed
			})
			d.writePolicy(strings.Replace(crowdPolicy, "  urgent:", "  fresh: {min_gap: 1s}\n  urgent:", 1))
			if err := d.apps[0].ReloadPolicy(); err != nil {
				t.Fatal(err)
			}
			d.eventually("the producer knows the new category", func() bool {
				var reply struct{ ID string }
				return d.ask(producer, http.MethodPost, "/v1/notifications",
					`{"user_id":"bob","channel":"log","category":"fresh","title":"x"}`, &reply) == http.StatusAccepted
			})
		})
	}
}

// eventually waits until something is so.
func (d *fleet) eventually(what string, ok func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("it never comes true that %s", what)
		}
	}
}

// A producer that writes to the queue itself takes what the deployment's API takes, and refuses what it refuses:
// targets by its --webhook-allow, contents by its templates.
func TestProducersCheckAsTheDeploymentDoes(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, crowdPolicy, 0), newReceiver(t)
	to := func(target string) string { return `{"user_id":"ada","to":"` + target + `","title":"x"}` }
	const private, templated = "http://10.1.2.3/hook", `{"user_id":"ada","channel":"log","template":{"name":"hi","locale":"de","data":{"name":"Ada"}}}`

	if status, reply := d.produce(to(private)); status != http.StatusAccepted {
		t.Errorf("before the deployment told what it allows: %d %+v, want it left to the workers", status, reply)
	}
	if status, reply := d.produce(to("gopher://x")); status != http.StatusUnprocessableEntity {
		t.Errorf("no URL of a webhook: %d %+v", status, reply)
	}

	folder := filepath.Join(t.TempDir(), "hi", "default")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "body.txt"), []byte("{{.name}} is here"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := d.settings() // which allow 127.0.0.0/8
	s.Templates = filepath.Dir(filepath.Dir(folder))
	process := d.startWith(s)
	d.awaitStats("the workers refused what the producer left to them", func(s stats) bool {
		return s.Totals.Failed == 1
	})

	if status, reply := d.produce(to(r.server.URL)); status != http.StatusAccepted {
		t.Errorf("an allowed target: %d %+v", status, reply)
	} else {
		r.await(t, 1)
	}
	if status, reply := d.produce(to(private)); status != http.StatusUnprocessableEntity ||
		!strings.Contains(reply.Detail, "10.1.2.3 is not public") {
		t.Errorf("a target that is not allowed: %d %+v", status, reply)
	}
	if status, reply := d.produce(templated); status != http.StatusAccepted || reply.Body != "Ada is here" {
		t.Errorf("a template: %d %+v", status, reply)
	}
	if status, reply := d.produce(strings.Replace(templated, `"hi"`, `"ho"`, 1)); status != http.StatusUnprocessableEntity || !strings.Contains(reply.Detail, "there is no template") {
		t.Errorf("an unknown template: %d %+v", status, reply)
	}

	if err := process.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.startWith(d.settings()) // without templates any more
	if status, reply := d.produce(templated); status != http.StatusUnprocessableEntity {
		t.Errorf("a template of before: %d %+v", status, reply)
	}
}

// A deployment of a program that did not tell what it allows lets the workers check.
func TestProducersLeaveToWorkersWhatTheyAreNotTold(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 1)
	if err := d.client().Set(t.Context(), "pacer:channels", `{"channels":["log","webhook"]}`, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if status, reply := d.produce(`{"user_id":"ada","to":"http://10.1.2.3/","title":"x"}`); status != http.StatusAccepted {
		t.Errorf("%d %+v", status, reply)
	}
	d.awaitStats("the worker refused it", func(s stats) bool { return s.Totals.Failed == 1 })
}

// With Postgres all of Redis can be lost, and then producers check as before: whoever rebuilds it tells them again
// what it knows. A rebuild by command, which knows neither channels nor templates, leaves what is told of them.
func TestProducersAreToldAgainAfterRedisWasLost(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onPostgres, crowdPolicy, 0)
	s := d.settings()
	s.Templates = t.TempDir()
	d.startWith(s)
	client := d.client()
	told := func() map[string]string {
		all := map[string]string{}
		for _, key := range []string{"pacer:partitions", "pacer:policy", "pacer:channels", "pacer:templates"} {
			all[key] = client.Get(t.Context(), key).Val()
		}
		return all
	}
	want := told()
	if want["pacer:templates"] == "" || !strings.Contains(want["pacer:channels"], "127.0.0.0/8") {
		t.Fatalf("told is %q", want)
	}
	if err := client.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !maps.Equal(told(), want); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("told is %q, want %q", told(), want)
		}
	}
	s = d.settings()
	s.WebhookAllow = nil
	if _, err := deployment.Rebuild(t.Context(), s, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(told(), want) {
		t.Errorf("after a rebuild told is %q, want %q", told(), want)
	}
}
