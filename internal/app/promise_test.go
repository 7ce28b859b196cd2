package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/internal/throttle"
	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

const promisePolicy = `
version: 1
categories:
  default: {limits: [{max: 2, per: 1h}], max_defer: 24h}
  brief: {limits: [{max: 2, per: 1h}], max_defer: 30m}
  free: {}
`

// promised is what the API promises, or why it does not.
type promised struct {
	ID, Decision, Reason, Type, Error string
	DeliverAt                         time.Time `json:"deliver_at"`
	Place                             int
}

// promise accepts a notification, and gives what is promised of it.
func (d *fleet) promise(n item, want int) promised {
	d.t.Helper()
	body, err := json.Marshal(n)
	if err != nil {
		d.t.Fatal(err)
	}
	client := apitest.Client
	if want == http.StatusServiceUnavailable {
		client = apitest.Once
	}
	var p promised
	if status := d.callBy(client, http.MethodPost, "/v1/notifications?promise=true", body, nil, &p); status != want {
		d.t.Fatalf("%s: status %d, want %d: %+v", body, status, want, p)
	}
	return p
}

// What is promised is what views say, and what happens: the slots that the first deliveries leave.
func TestPromises(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, promisePolicy, 1), newReceiver(t)
			to := func(fields item) item {
				fields["user_id"], fields["to"] = "ada", r.server.URL
				return fields
			}
			d.awaitPromises()
			if p := d.promise(to(item{}), http.StatusAccepted); p.Decision != "now" || p.Place != 0 && p.Place != 1 {
				t.Errorf("the first: %+v", p)
			}
			d.promise(to(item{}), http.StatusAccepted)
			slot := func(n, hours int) time.Time {
				admitted := []throttle.Micros{r.await(t, 2)[0].AdmittedAt, r.await(t, 2)[1].AdmittedAt}
				slices.Sort(admitted) // whichever came first
				return admitted[n].Add(time.Duration(hours) * time.Hour).Time()
			}
			check := func(what string, got, want promised) {
				t.Helper()
				want.ID, want.Error = got.ID, got.Error
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
			r.await(t, 2)
			third := d.promise(to(item{}), http.StatusAccepted)
			check("the third", third,
				promised{Decision: "deferred", Reason: "limit 2/1h", DeliverAt: slot(0, 1), Place: 1})
			var view promised
			d.call(http.MethodGet, "/v1/notifications/"+third.ID, nil, nil, &view)
			if !view.DeliverAt.Equal(third.DeliverAt) || view.Place != 1 {
				t.Errorf("its view says %+v", view)
			}
			d.pausedPromise(to)
			late := promised{Type: "too-late", Reason: "limit 2/1h", DeliverAt: slot(1, 1)}
			check("no time",
				d.promise(to(item{"max_wait": "30s", "idempotency_key": "k"}), http.StatusUnprocessableEntity), late)
			check("expired",
				d.promise(to(item{"expires_at": time.Now().Add(time.Minute)}), http.StatusUnprocessableEntity), late)
			check("more time", d.promise(to(item{"max_wait": "2h", "idempotency_key": "k"}), http.StatusAccepted),
				promised{Decision: "deferred", Reason: "limit 2/1h", DeliverAt: slot(1, 1), Place: 2})
			at := throttle.MicrosOf(time.Now().Add(time.Minute)).Time()
			check("scheduled", d.promise(to(item{"category": "free", "send_at": at}), http.StatusAccepted),
				promised{Decision: "scheduled", DeliverAt: at, Place: 1})
			d.promiseMany(to, slot)
		})
	}
}

// pausedPromise promises no moment for what is paused, and refuses what may not wait.
func (d *fleet) pausedPromise(to func(item) item) {
	d.t.Helper()
	d.act(d.apps[0], http.StatusOK, ops.Action{Action: "pause", Kind: "category", Name: "brief", Why: "a test"})
	if p := d.promise(to(item{"category": "brief"}), http.StatusAccepted); p.Decision != "deferred" ||
		p.Reason != notification.ReasonPaused || !p.DeliverAt.IsZero() {
		d.t.Errorf("while it is paused: %+v", p)
	}
	late := d.promise(to(item{"category": "brief", "max_wait": "1h"}), http.StatusUnprocessableEntity)
	if late.Type != "too-late" || !late.DeliverAt.IsZero() || late.Reason != notification.ReasonPaused {
		d.t.Errorf("that may not wait: %+v", late)
	}
}

// promiseMany promises several of one user in one request: consecutive slots, but for those that are too late.
func (d *fleet) promiseMany(to func(item) item, slot func(n, hours int) time.Time) {
	d.t.Helper()
	body, err := json.Marshal([]item{to(item{}), to(item{"max_wait": "1h"}), to(item{}), {"user_id": ""}})
	if err != nil {
		d.t.Fatal(err)
	}
	var reply struct {
		Accepted, Rejected int
		Results            []promised
	}
	if status := d.call(http.MethodPost, "/v1/notifications/bulk?promise=true&results=errors", body, nil,
		&reply); status != http.StatusOK || len(reply.Results) != 4 || reply.Accepted != 2 {
		d.t.Fatalf("bulk: status %d, %+v", status, reply)
	}
	for i := range reply.Results {
		reply.Results[i].ID, reply.Results[i].Error = "", ""
	}
	want := []promised{
		{Decision: "deferred", Reason: "limit 2/1h", DeliverAt: slot(0, 2), Place: 3},
		{Type: "too-late", Reason: "limit 2/1h", DeliverAt: slot(1, 2)},
		{Decision: "deferred", Reason: "limit 2/1h", DeliverAt: slot(1, 2), Place: 4},
		{},
	}
	if diff := cmp.Diff(want, reply.Results); diff != "" {
		d.t.Errorf("bulk (-want +got):\n%s", diff)
	}
	var problem struct{ Detail string }
	one := `{"user_id":"eve","channel":"log"}`
	many := []byte("[" + strings.Repeat(one+",", 1000) + one + "]")
	status := d.call(http.MethodPost, "/v1/notifications/bulk?promise=true", many, nil, &problem)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(problem.Detail, "at most 1000") {
		d.t.Errorf("1001 promises: status %d, %s", status, problem.Detail)
	}
}

// While Redis is away, Postgres accepts; but nobody can promise, so nothing that asks for it is accepted.
func TestNoPromiseWithoutRedis(t *testing.T) {
	t.Parallel()
	d := newDurable(t, 1)
	d.redis.Kill()
	n := item{"user_id": "ada", "to": d.receiver.server.URL, "id": "n1"}
	if p := d.promise(n, http.StatusServiceUnavailable); p.Decision != "" {
		t.Errorf("promised %+v", p)
	}
	if status := d.call(http.MethodGet, "/v1/notifications/n1", nil, nil, nil); status != http.StatusNotFound {
		t.Errorf("what was refused: status %d", status)
	}
	d.redis.Restart()
	d.awaitPromises()
	if p := d.promise(n, http.StatusAccepted); p.Decision == "" {
		t.Errorf("promised %+v", p)
	}
	d.verify([]string{"n1"})
}

// A promise counts what was accepted before and has yet to reach Redis, such as what a producer's transaction wrote.
func TestPromiseCountsWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onPostgres, promisePolicy, 1)
	d.awaitPromises()
	since := time.Now()
	release := d.keepInOutbox("ada", 2)
	n := item{"user_id": "ada", "channel": "log", "max_wait": "1s"}
	check := func(when string) {
		t.Helper()
		if p := d.promise(n, http.StatusUnprocessableEntity); p.Type != "too-late" || p.Reason != "limit 2/1h" ||
			p.DeliverAt.Before(since.Add(time.Hour)) {
			t.Errorf("behind two %s: %+v", when, p)
		}
	}
	check("on their way")
	if p := d.promise(item{"user_id": "eve", "channel": "log"}, http.StatusAccepted); p.Decision != "now" {
		t.Errorf("of another user: %+v", p)
	}
	release()
	check("that may be there")
}

// keepInOutbox has a producer's transaction accept n notifications of a user, and keeps the relay from placing them.
func (d *fleet) keepInOutbox(userID string, n int) (release func()) {
	d.t.Helper()
	begin := func() pgx.Tx {
		tx, err := postgrestest.Connect(d.t, d.databaseURL).Begin(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		return tx
	}
	accepting, locking := begin(), begin()
	if _, err := accepting.Exec(d.t.Context(), `SELECT pacer.enqueue(jsonb_build_object('user_id', $1::text, 'channel', 'log'))
		FROM generate_series(1, $2)`, userID, n); err != nil {
		d.t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() { // the lock waits for the producer, and the relay for the lock
		_, err := locking.Exec(d.t.Context(), "LOCK TABLE pacer.outbox IN EXCLUSIVE MODE")
		locked <- err
	}()
	d.awaitWaiting("pacer.outbox")
	if err := errors.Join(accepting.Commit(d.t.Context()), <-locked); err != nil {
		d.t.Fatal(err)
	}
	return func() { _ = locking.Rollback(context.WithoutCancel(d.t.Context())) }
}

// awaitWaiting waits until somebody waits for the exclusive lock of a table.
func (d *fleet) awaitWaiting(table string) {
	d.t.Helper()
	conn := postgrestest.Connect(d.t, d.databaseURL)
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		var waits bool
		err := conn.QueryRow(d.t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE NOT granted AND mode = 'ExclusiveLock' AND relation = $1::regclass)`, table).Scan(&waits)
		if err != nil {
			d.t.Fatal(err)
		}
		if waits {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("nobody waits for the lock of %s", table)
		}
	}
}

// awaitPromises waits until the partitions are built: before, nobody can promise.
func (d *fleet) awaitPromises() {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for user := range 64 {
		body := fmt.Appendf(nil, `{"user_id":"other-%d","channel":"log"}`, user)
		for d.call(http.MethodPost, "/v1/notifications?promise=true", body, nil, nil) != http.StatusAccepted {
			if time.Now().After(deadline) {
				d.t.Fatal("nothing is promised")
			}
		}
	}
}
