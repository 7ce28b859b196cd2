package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/deployment"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// wantRefusal checks that a process does not start, and why.
func (d *fleet) wantRefusal(parts ...string) {
	d.t.Helper()
	process, err := app.New(context.Background(), d.settings(), slog.New(slog.DiscardHandler))
	refused, ok := errors.AsType[*refusal.Error](err)
	if !ok || process != nil {
		d.t.Fatalf("the start is not refused: %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(refused.Reason, part) {
			d.t.Errorf("the start is refused for %q, want it to say %q", refused.Reason, part)
		}
	}
}

// adoptedPolicy retries slowly, and has a cap and a limit that is counted without a log.
var adoptedPolicy = strings.NewReplacer(
	"{max_attempts: 3, min_backoff: 10ms, max_backoff: 50ms}", "{max_attempts: 50, min_backoff: 2s, max_backoff: 4s}",
	"  once:", "  fixed: {algorithm: fixed_window, limits: [{max: 2, per: 6h}]}\n  once:",
).Replace(crowdPolicy) + "caps: [{name: both, categories: [default, once], limits: [{max: 1, per: 6h}]}]\n"

// Everything that a deployment without DATABASE_URL keeps goes along to Postgres at its first start with one: what
// waits, why, and until when; full windows, devices, preferences, idempotency keys, endpoints, pauses. Nobody works
// without Postgres afterwards. All of it holds also when Redis loses everything at once.
func TestADatabaseIsAddedToARunningDeployment(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, adoptedPolicy, 1), newReceiver(t)
	failing := newReceiver(t)
	failing.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	slow, fixed := d.bulk(r.crowd("ada", "slow", 3)), d.bulk(r.crowd("fay", "fixed", 3))
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	later := d.bulk([]item{{
		"user_id": "ben", "to": r.server.URL, "send_at": at, "collapse_key": "k", "data": map[string]int{"n": 1},
	}})
	retried := d.bulk([]item{{"user_id": "cyd", "to": failing.server.URL}})
	failing.await(t, 1)
	key, once := http.Header{"Idempotency-Key": {"once"}}, []byte(`{"user_id":"dan","to":"`+r.server.URL+`"}`)
	var first, again struct{ ID string }
	d.call(http.MethodPost, "/v1/notifications", once, key, &first)
	for path, body := range map[string]string{
		"PUT /v1/users/eve/devices/phone": `{"channel":"webhook","to":"` + r.server.URL + `"}`,
		"POST /v1/webhook-endpoints":      `{"id":"acme","url":"https://example.com/"}`,
		"PUT /v1/users/eve/preferences":   `{"time_zone":"Asia/Tokyo","limits":{"once":{"limits":[{"max":1,"per":"7h"}]}}}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		d.call(method, path, []byte(body), nil, nil)
	}
	toDevice := d.bulk([]item{{"user_id": "eve", "category": "once"}})
	r.await(t, 5)
	d.awaitStats("one is retrying", func(s stats) bool {
		return s.Retrying == 1 && s.Deferred == 3 && s.Sending == 0
	})
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "channel", Name: "log"})
	if err := d.client().Set(t.Context(), "pacer:{records}:log:event:latest", 7, 0).Err(); err != nil {
		t.Fatal(err)
	}
	d.databaseURL = postgrestest.URL(t)
	d.wantRefusal("runs without DATABASE_URL")
	d.stop()

	failing.mu.Lock()
	failing.respond = func(_ arrival, w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	failing.mu.Unlock()
	d.start()
	database := d.databaseURL
	d.databaseURL = ""
	d.wantRefusal("set DATABASE_URL")
	d.databaseURL = database
	isAsBefore := func() {
		t.Helper()
		d.awaitStats("the retried one is delivered", func(s stats) bool {
			return s.Retrying+s.Queued+s.Sending == 0 && s.Deferred == 3 && s.Scheduled == 1
		})
		d.awaitView(slow[1], "deferred", "limit 1/1h")
		d.awaitView(fixed[2], "deferred", "limit 2/6h")
		d.awaitView(later[0], "scheduled", "")
	}
	isAsBefore()
	d.flushRedis()
	isAsBefore()
	capped := d.bulk(append(r.crowd("dan", "once", 1), r.crowd("eve", "once", 1)...))
	d.awaitView(capped[0], "deferred", "cap:both") // one of another category went before
	d.awaitView(capped[1], "deferred", "limit 1/7h")
	if v := d.view(retried[0]); v.Status != "delivered" || v.Attempts < 2 {
		t.Errorf("what was retried is %+v", v)
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
	var zone, reached string
	var latest, elsewhere int64
	if err := postgrestest.Connect(t, d.databaseURL).QueryRow(t.Context(), `SELECT
		(SELECT time_zone FROM pacer.preferences WHERE user_id = 'eve'),
		(SELECT outcome FROM pacer.deliveries WHERE notification_id = $1 AND device_id = 'phone'),
		(SELECT value FROM pacer.numbers WHERE name = 'event'), (SELECT count(*) FROM pacer.accepted_elsewhere)`,
		toDevice[0]).Scan(&zone, &reached, &latest, &elsewhere); err != nil || zone != "Asia/Tokyo" ||
		reached != "delivered" || latest != 7 || elsewhere != 0 {
		t.Errorf("eve's zone is %q, her device was %q, event %d, %d counted twice, %v", zone, reached, latest, elsewhere, err)
	}
	if status := d.call(http.MethodDelete, "/v1/users/ada/throttle?category=slow", nil, nil, nil); status != http.StatusNoContent {
		t.Fatalf("clear: status %d", status)
	}
	d.bulk([]item{{"user_id": "eve", "category": "urgent"}}) // to the device
	r.await(t, 7)
	seen := map[string]int{}
	for _, a := range r.got() {
		seen[a.ID]++
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	s := d.awaitStats("all that came is counted", func(s stats) bool { return s.Totals.Delivered == int64(len(seen))+1 })
	if open := s.Deferred + s.Scheduled; s.Totals.Accepted != s.Totals.Delivered+open {
		t.Errorf("the totals are %+v, and %d wait", s.Totals, open)
	}
	differs := func(found rebuild.Difference) error { return fmt.Errorf("Redis differs: %+v", found) }
	if err := deployment.Verify(t.Context(), d.settings(), slog.New(slog.DiscardHandler), differs); err != nil {
		t.Error(err)
	}
}

// errCrashed is what everything returns after a crash.
var errCrashed = errors.New("the process has crashed")

// crash lets a process take so many steps once it adopts; each command and each statement is one.
type crash struct {
	adopts atomic.Bool
	left   atomic.Int64
}

func (c *crash) step() error {
	if c.adopts.Load() && c.left.Add(-1) < 0 {
		return errCrashed
	}
	return nil
}

func (*crash) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *crash) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := c.step(); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (c *crash) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := c.step(); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

func (c *crash) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "pg_advisory_xact_lock") {
		c.adopts.Store(true)
	}
	if c.step() == nil {
		return ctx
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errCrashed)
	return ended
}

func (*crash) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Wherever the first start with DATABASE_URL dies, the next one goes on. Rows are in the database all at once, and
// nothing goes twice.
func TestAnAdoptionGoesOnAfterACrashAtAnyStep(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onRedis, adoptedPolicy, 1), newReceiver(t)
	ids := append(d.bulk(r.crowd("ada", "slow", 3)), d.bulk(r.crowd("fay", "fixed", 4))...)
	device := []byte(`{"channel":"webhook","to":"` + r.server.URL + `"}`)
	d.call(http.MethodPut, "/v1/users/ada/devices/phone", device, nil, nil)
	d.call(http.MethodPut, "/v1/users/ada/preferences", []byte(`{"time_zone":"Asia/Tokyo"}`), nil, nil)
	r.await(t, 3)
	d.awaitStats("the results are written", func(s stats) bool { return s.Totals.Delivered == 3 })
	d.stop()
	d.databaseURL = postgrestest.URL(t)
	conn := postgrestest.Connect(t, d.databaseURL)
	crashes, started := 0, false
	for steps := int64(1); !started; steps++ {
		c := &crash{}
		c.left.Store(steps)
		hooks := app.Hooks{Hooks: deployment.Hooks{
			Redis: func(options *redis.UniversalOptions) redis.UniversalClient {
				client := redis.NewUniversalClient(options)
				client.AddHook(c)
				return client
			},
			Database: func(config *pgxpool.Config) { config.ConnConfig.Tracer = c },
		}}
		process, err := hooks.New(t.Context(), d.settings(), slog.New(slog.DiscardHandler))
		if started = err == nil; started {
			_ = process.Stop(context.WithoutCancel(t.Context())) // it has crashed by now
		}
		var rows, attempts, marks int
		if err := conn.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pacer.notifications),
			(SELECT count(*) FROM pacer.attempts), (SELECT count(*) FROM pacer.marks)`).Scan(&rows, &attempts, &marks); err != nil {
			t.Fatal(err)
		}
		if marks == 1 && rows+attempts != 0 || marks == 2 && (rows != len(ids) || attempts != 3) || marks > 2 {
			t.Fatalf("after %d steps: %d marks, %d notifications, %d attempts", steps, marks, rows, attempts)
		}
		if !started && marks == 1 {
			crashes++
		}
	}
	if crashes < 20 {
		t.Errorf("it has crashed %d times only", crashes)
	}
	d.start()
	d.awaitStats("the same wait", func(s stats) bool { return s.Deferred == 4 && s.Totals.Delivered == 3 })
	if n := len(r.got()); n != 3 {
		t.Errorf("%d came, want 3", n)
	}
}

// A Redis that belongs to another database is not taken, nor a database that was used before. A Redis that was used
// before and in which nothing waits is in nobody's way.
func TestADatabaseIsAddedToItsOwnRedisOnly(t *testing.T) {
	t.Parallel()
	used, r := newDeployment(t, onPostgres, crowdPolicy, 1), newReceiver(t)
	used.bulk(r.crowd("ada", "slow", 1))
	r.await(t, 1)
	used.stop()
	ofUsed := used.databaseURL
	used.databaseURL = postgrestest.URL(t)
	used.wantRefusal("belongs to another database")

	d := newDeployment(t, onRedis, crowdPolicy, 1)
	waiting := d.bulk(r.crowd("ben", "slow", 2))
	r.await(t, 2)
	d.awaitView(waiting[1], "deferred", "")
	d.stop()
	d.databaseURL = ofUsed
	d.wantRefusal("wait (1)", "used before")
	d.databaseURL = ""
	d.start()
	d.call(http.MethodDelete, "/v1/notifications/"+waiting[1], nil, nil, nil)
	d.stop()
	d.databaseURL = ofUsed
	d.start()
	d.bulk(r.crowd("cyd", "default", 1))
	r.await(t, 3)
}
