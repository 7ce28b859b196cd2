package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// refusal is why a process does not start.
func (d *fleet) refusal() string {
	d.t.Helper()
	process, err := app.New(context.Background(), d.settings(), slog.New(slog.DiscardHandler))
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok || process != nil {
		d.t.Fatalf("the start is not refused: %v", err)
	}
	return refused.Reason
}

func (d *fleet) wantRefusal(parts ...string) {
	d.t.Helper()
	reason := d.refusal()
	for _, part := range parts {
		if !strings.Contains(reason, part) {
			d.t.Errorf("the start is refused for %q, want it to say %q", reason, part)
		}
	}
}

// Everything that a deployment without DATABASE_URL keeps goes along to Postgres: what waits, why, and until when;
// full windows, devices, idempotency keys, pauses. Until that is done nothing starts, and afterwards nobody works
// without Postgres.
func TestADatabaseIsAddedToARunningDeployment(t *testing.T) {
	t.Parallel()
	policy := strings.Replace(crowdPolicy, "{max_attempts: 3, min_backoff: 10ms, max_backoff: 50ms}",
		"{max_attempts: 50, min_backoff: 2s, max_backoff: 4s}", 1) +
		"caps: [{name: both, categories: [default, once], limits: [{max: 1, per: 6h}]}]\n"
	d, r := newDeployment(t, onRedis, policy, 1), newReceiver(t)
	failing := newReceiver(t)
	failing.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	slow := d.bulk(r.crowd("ada", "slow", 3))
	r.await(t, 1)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	later := d.bulk([]item{
		{
			"user_id": "ben", "to": r.server.URL, "send_at": at, "collapse_key": "k", "title": "kept",
			"data": map[string]int{"n": 1},
		},
	})
	retried := d.bulk([]item{{"user_id": "cyd", "to": failing.server.URL}})
	failing.await(t, 1)
	key := http.Header{"Idempotency-Key": {"once"}}
	once := []byte(`{"user_id":"dan","to":"` + r.server.URL + `"}`)
	var first, again struct{ ID string }
	d.call(http.MethodPost, "/v1/notifications", once, key, &first)
	d.call(http.MethodPut, "/v1/users/eve/devices/phone", []byte(`{"channel":"webhook","to":"`+r.server.URL+`"}`), nil,
		nil)
	d.call(http.MethodPost, "/v1/webhook-endpoints", []byte(`{"id":"acme","url":"https://example.com/"}`), nil, nil)
	d.call(http.MethodPut, "/v1/users/eve/preferences", []byte(`{"time_zone":"Asia/Tokyo"}`), nil, nil)
	r.await(t, 2)
	d.awaitStats("one is retrying", func(s stats) bool { return s.Retrying == 1 && s.Deferred == 2 && s.Sending == 0 })
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "channel", Name: "log"})
	d.databaseURL = postgrestest.URL(t)
	log := slog.New(slog.DiscardHandler)
	if _, err := deployment.Import(t.Context(), d.settings(), log); err == nil ||
		!strings.Contains(err.Error(), "is running") {
		t.Errorf("an import beside a running process: %v", err)
	}
	d.stop()

	d.wantRefusal("keeps 4 waiting notifications", "dispatcher import", "--decline")
	found := 0
	countFound := func(postgres.Difference) error { found++; return nil }
	if err := deployment.Verify(t.Context(), d.settings(), log, countFound); err != nil || found != 1 {
		t.Errorf("verify finds %d differences, %v; want one: nothing was imported", found, err)
	}
	if _, err := deployment.Rebuild(t.Context(), d.settings(), log); err == nil {
		t.Error("a rebuild destroys what was not imported")
	}
	client := redis.NewUniversalClient(d.settings().Redis.Options)
	defer client.Close()
	if err := client.Set(t.Context(), "pacer:{records}:log:event:latest", 7, 0).Err(); err != nil {
		t.Fatal(err)
	}
	count, err := deployment.Import(t.Context(), d.settings(), log)
	if err != nil || count.Waiting != 4 || count.Notifications != 6 || count.Keys != 1 || count.Devices != 1 {
		t.Fatalf("imported %+v, %v", count, err)
	}
	conn := postgrestest.Connect(t, d.databaseURL)
	var counted int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pacer.accepted_elsewhere").Scan(&counted); err != nil ||
		counted != 0 {
		t.Errorf("what was imported had been counted when it was accepted, and is counted %d times more, %v", counted,
			err)
	}
	var zone string
	err = conn.QueryRow(t.Context(), "SELECT time_zone FROM pacer.preferences WHERE user_id = 'eve'").Scan(&zone)
	if err != nil || zone != "Asia/Tokyo" {
		t.Errorf("eve's time zone is %q, %v", zone, err)
	}
	var latest int64
	err = conn.QueryRow(t.Context(), "SELECT value FROM pacer.numbers WHERE name = 'event'").Scan(&latest)
	if err != nil || latest != 7 {
		t.Errorf("the latest event has the number %d, %v; want 7, as in Redis", latest, err)
	}
	// Its last step was lost: it is done once more.
	if err := client.Set(t.Context(), "pacer:import", "begun", 0).Err(); err != nil {
		t.Fatal(err)
	}
	d.wantRefusal("dispatcher import")
	repeated, err := deployment.Import(t.Context(), d.settings(), log)
	repeated.Admissions = count.Admissions // the shortest windows may have passed meanwhile
	if err != nil || repeated != count {
		t.Errorf("imported again: %+v, %v", repeated, err)
	}
	if _, err := deployment.Import(t.Context(), d.settings(), log); err == nil ||
		!strings.Contains(err.Error(), "nothing to import") {
		t.Errorf("a third time: %v", err)
	}

	database := d.databaseURL
	d.databaseURL = ""
	d.wantRefusal("DATABASE_URL")
	d.databaseURL = database
	failing.mu.Lock()
	failing.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	failing.mu.Unlock()
	d.start()
	d.awaitStats("the retried one is delivered", func(s stats) bool {
		return s.Retrying+s.Queued+s.Sending == 0 &&
			s.Deferred == 2 && s.Scheduled == 1
	})
	d.awaitView(slow[1], "deferred", "limit 1/1h")
	if v := d.view(retried[0]); v.Status != "delivered" || v.Attempts < 2 {
		t.Errorf("what was retried is %+v", v)
	}
	d.awaitView(later[0], "scheduled", "")
	if v := d.view(slow[0]); v.Status != "delivered" {
		t.Errorf("what was delivered is %+v", v)
	}
	if status := d.call(http.MethodPost, "/v1/notifications", once, key, &again); status != http.StatusOK ||
		again != first {
		t.Errorf("the key again: %d, %s, want %s", status, again.ID, first.ID)
	}
	if status := d.call(http.MethodGet, "/v1/webhook-endpoints/acme", nil, nil, nil); status != http.StatusOK {
		t.Errorf("the webhook endpoint: %d", status)
	}
	if s := d.snapshot(d.apps[0]); len(s.Pauses) != 1 {
		t.Errorf("paused is %+v", s.Pauses)
	}
	capped := d.bulk(r.crowd("dan", "once", 1))[0] // one of another category went before the import
	d.awaitView(capped, "deferred", "cap:both")
	d.bulk([]item{{"user_id": "eve"}}) // to the device
	if status := d.call(http.MethodDelete, "/v1/users/ada/throttle?category=slow", nil, nil, nil); status != http.StatusNoContent {
		t.Fatalf("clear: status %d", status)
	}
	r.await(t, 4)
	seen := map[string]int{}
	for _, a := range append(r.got(), failing.got()...) {
		seen[a.ID]++
	}
	if seen[slow[0]] != 1 || seen[slow[1]] != 1 || seen[first.ID] != 1 {
		t.Errorf("delivered %v", seen)
	}
}

// What was declined is dropped, and nothing else stands in the way: not even a process that died a moment ago.
func TestAnImportCanBeDeclined(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, crowdPolicy, 1), newReceiver(t)
	d.bulk(r.crowd("ada", "slow", 3))
	r.await(t, 1)
	d.stop()
	d.databaseURL = postgrestest.URL(t)
	log := slog.New(slog.DiscardHandler)
	d.wantRefusal("keeps 2 waiting notifications")
	client := redis.NewUniversalClient(d.settings().Redis.Options)
	defer client.Close()
	dead := presence.NewAnnouncer(client, "dead", nil, func() int { return 0 }, log)
	if err := dead.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := deployment.DeclineImport(t.Context(), d.settings(), log); err != nil {
		t.Fatal(err)
	}
	d.start()
	d.bulk(r.crowd("ben", "default", 1))
	r.await(t, 2)
	if s := d.awaitStats("one delivered", func(s stats) bool { return s.Totals.Delivered == 1 }); s.Deferred != 0 {
		t.Errorf("the counts are %+v", s)
	}
}
