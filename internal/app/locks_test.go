package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// foreign is a lock that another transaction of the database holds, and what needs the row.
type foreign struct {
	name string
	// before is what is there already, as requests; first waits for its moment until it is locked.
	before []string
	// lock is what the transaction does.
	lock string
	// needs are requests that need the row. Each is answered while the lock is held: with a status and with words.
	needs []need
	// owed are the notifications that reach the receiver once the lock is gone.
	owed []string
}

// need is a request, such as "POST /v1/notifications {…}", and its response.
type need struct {
	request string
	status  int
	says    string
}

const (
	// dueIn is when some notifications are due.
	dueIn = 3 * time.Second
	// sent is the notification that the receiver keeps waiting until it is locked.
	sent = "sent"
)

// foreignLocks is one lock of every kind of row that pacer writes.
func foreignLocks(to string) []foreign {
	item := func(id, more string) string {
		return `{"id":"` + id + `","user_id":"` + id + `","to":"` + to + `"` + more + `}`
	}
	post := func(id, more string) string { return "POST /v1/notifications " + item(id, more) }
	bulk := func(ids ...string) string {
		items := make([]string, len(ids))
		for i, id := range ids {
			items[i] = item(id, "")
		}
		return "POST /v1/notifications/bulk [" + strings.Join(items, ",") + "]"
	}
	const unavailable = http.StatusServiceUnavailable
	soon := `,"send_at":"` + time.Now().Add(80*24*time.Hour).UTC().Format(time.RFC3339) + `"`
	moment := `,"send_at":"` + time.Now().Add(dueIn).UTC().Format(time.RFC3339Nano) + `"`
	quiet := `PUT /v1/users/bob/preferences {"opt_out":{"categories":["slow"]}}`
	device := `PUT /v1/users/bob/devices/phone {"channel":"webhook","to":"` + to + `"}`
	return []foreign{
		{
			name: "a notification that is being enqueued", lock: "SELECT pacer.enqueue('" + item("enqueued", "") + "')",
			owed: []string{"beside", "enqueued"},
			needs: []need{
				{post("enqueued", ""), unavailable, "notification enqueued: another transaction"},
				{bulk("beside", "enqueued"), http.StatusOK, "notification enqueued: another transaction"},
			},
		},
		{
			name: "a notification", before: []string{post("kept", soon)},
			lock: "SELECT FROM pacer.notifications WHERE id = 'kept' FOR UPDATE",
			needs: []need{
				{"DELETE /v1/notifications/kept", unavailable, "notification kept: another transaction"},
				{post("kept", soon), http.StatusOK, ""},
			},
		},
		{
			name: "a notification that is being changed", before: []string{post("changed", soon)},
			lock: "UPDATE pacer.notifications SET detail = '' WHERE id = 'changed'",
			needs: []need{
				{post("changed", soon), unavailable, "notification changed: another transaction"},
				{"DELETE /v1/notifications/changed", unavailable, "notification changed: another transaction"},
			},
		},
		{
			name: "notifications that are due", owed: []string{"due1", "due2"},
			before: []string{post("due1", moment), post("due2", moment)},
			lock:   "SELECT FROM pacer.notifications WHERE id IN ('due1', 'due2') FOR UPDATE",
		},
		{
			name: "a notification that is being sent", before: []string{post(sent, "")}, owed: []string{sent},
			lock: "SELECT FROM pacer.notifications WHERE id = '" + sent + "' FOR UPDATE",
		},
		{
			name: "a notification in the outbox", before: []string{post("outbox", soon)},
			lock: "INSERT INTO pacer.outbox (key, ids) VALUES ('~outbox', '{outbox}')",
			needs: []need{
				{"DELETE /v1/notifications/outbox", unavailable, "notification outbox: another transaction"},
				{post("outbox", soon), http.StatusOK, ""},
			},
		},
		{
			name: "an idempotency key",
			lock: `INSERT INTO pacer.notifications (id, user_id, category, channel, priority, idempotency_key, fingerprint)
				VALUES ('holder', 'bob', 'default', 'log', 3, 'key', '')`,
			needs: []need{
				{post("keyed", `,"idempotency_key":"key"`), unavailable, "notification keyed: another transaction"},
			},
		},
		{
			name: "preferences", before: []string{quiet},
			lock: "SELECT FROM pacer.preferences WHERE user_id = 'bob' FOR UPDATE",
			needs: []need{
				{`PUT /v1/users/bob/preferences {}`, unavailable, "preferences: another transaction"},
				{`PUT /v1/users/eve/preferences {}`, http.StatusOK, ""},
			},
		},
		{
			name: "a device", before: []string{device},
			lock:  "SELECT FROM pacer.devices WHERE user_id = 'bob' FOR UPDATE",
			needs: []need{{device, unavailable, "device phone: another transaction"}},
		},
		{
			name:  "a pause",
			lock:  "INSERT INTO pacer.records (kind, key, version, body) VALUES ('pause', 'category:urgent', 1, '{}')",
			needs: []need{{`POST /actions {"action":"pause","kind":"category","name":"urgent"}`, unavailable, ""}},
		},
		{
			name: "the history",
			lock: `INSERT INTO pacer.history (hour, category) VALUES (date_trunc('hour', now()), 'default')
				ON CONFLICT (hour, category) DO UPDATE SET category = excluded.category`,
		},
	}
}

// Whoever has a row locked, in a transaction that stays open, keeps nobody waiting but those who need this very row.
// These get a response that says so.
func TestAForeignLockKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	d := newDeployment(t, onPostgres, crowdPolicy, 1)
	due, locked := time.After(2*dueIn), make(chan struct{})
	r.respondTo(sent, func(arrival, http.ResponseWriter) { <-locked })
	release := sync.OnceFunc(func() { close(locked) })
	t.Cleanup(release)
	locks := foreignLocks(r.server.URL)
	for _, f := range locks {
		for _, request := range f.before {
			if status, said := d.request(apitest.Client, request); status >= http.StatusBadRequest {
				t.Fatalf("%s: %d %s", request, status, said)
			}
		}
	}
	if !r.awaitID(sent) {
		t.Fatal("it was not sent")
	}
	var holding []pgx.Tx
	for _, f := range locks {
		holding = append(holding, d.hold(f))
	}
	release()
	<-due
	d.besideLocks(locks, r)
	for _, tx := range holding {
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.wantOwed(locks, r)
}

// hold holds a lock.
func (d *fleet) hold(f foreign) pgx.Tx {
	d.t.Helper()
	tx, err := postgrestest.Connect(d.t, d.databaseURL).BeginTx(d.t.Context(), pgx.TxOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := tx.Exec(d.t.Context(), f.lock); err != nil {
		d.t.Fatalf("%s: %v", f.name, err)
	}
	return tx
}

// besideLocks has some need what is locked, until all others have got what they want.
func (d *fleet) besideLocks(locks []foreign, r *receiver) {
	through := make(chan struct{})
	var needing, others sync.WaitGroup
	for _, f := range locks {
		for _, n := range f.needs {
			needing.Go(func() { d.needUntil(through, n) })
		}
	}
	for producer := range 4 {
		others.Go(func() { d.produceBeside(producer, r) })
	}
	others.Wait()
	close(through)
	needing.Wait()
}

// wantOwed wants what was held up by the locks, each by its first attempt.
func (d *fleet) wantOwed(locks []foreign, r *receiver) {
	d.t.Helper()
	for _, f := range locks {
		for _, id := range f.owed {
			if !r.awaitID(id) {
				d.t.Errorf("%s: %s never came, though it was accepted", f.name, id)
			}
		}
	}
	d.awaitStats("all is delivered", func(s stats) bool { return s.Queued+s.Sending+s.Retrying == 0 })
	for _, f := range locks {
		for _, id := range f.owed {
			if v := d.view(id); v.Status != "delivered" || v.Attempts != 1 {
				d.t.Errorf("%s: %s is %s after %d attempts", f.name, id, v.Status, v.Attempts)
			}
		}
	}
}

// needUntil asks for what is locked again and again until the others are through, and until it was told why it can't
// have it: on a busy machine a response may say that the store does not respond.
func (d *fleet) needUntil(through chan struct{}, n need) {
	told, deadline := false, time.Now().Add(patience)
	for {
		status, said := d.request(apitest.Once, n.request)
		if status != n.status && status != http.StatusServiceUnavailable {
			d.t.Errorf("%s: %d %s, want %d", n.request, status, said, n.status)
			return
		}
		told = told || status == n.status && strings.Contains(said, n.says)
		select {
		case <-through:
			if told {
				return
			}
			if time.Now().After(deadline) {
				d.t.Errorf("%s: %d %s, want %d %s", n.request, status, said, n.status, n.says)
				return
			}
		default:
		}
	}
}

// besideRounds is how often each producer accepts something while another's row is locked.
const besideRounds = 4

// produceBeside accepts notifications of other users, one alone and some at once in turn. None is refused for long, and
// each reaches the receiver before the next.
func (d *fleet) produceBeside(producer int, r *receiver) {
	for i := range besideRounds {
		var items []item
		for k := range 1 + i%2*4 {
			id := fmt.Sprintf("other-%d-%d-%d", producer, i, k)
			items = append(items, item{"id": id, "user_id": id, "to": r.server.URL})
		}
		path, body := "/v1/notifications/bulk", any(items)
		if len(items) == 1 {
			path, body = "/v1/notifications", items[0]
		}
		text, err := json.Marshal(body)
		if err != nil {
			d.t.Error(err)
			return
		}
		status, said := d.request(apitest.Once, "POST "+path+" "+string(text))
		for tries := 1; status >= http.StatusBadRequest && tries < 3; tries++ { // the machine may stand still
			status, said = d.request(apitest.Once, "POST "+path+" "+string(text))
		}
		if status >= http.StatusBadRequest {
			d.t.Errorf("an unrelated request: %d %s", status, said)
			return
		}
		for _, it := range items {
			if !r.awaitID(fmt.Sprint(it["id"])) {
				d.t.Errorf("%s was not delivered while somebody else's row was locked", it["id"])
				return
			}
		}
	}
}

// awaitID waits until the receiver got a notification.
func (r *receiver) awaitID(id string) bool {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ticker.C {
		for _, a := range r.got() {
			if a.ID == id {
				return true
			}
		}
	}
	return false
}

// request makes a request of the API, or an operator's, that is written as METHOD PATH BODY.
func (d *fleet) request(client *http.Client, line string) (status int, said string) {
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	address := d.apps[0].Addr()
	if path == "/actions" {
		address = d.apps[0].OpsAddr()
	}
	made, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	made.Header.Set("Content-Type", "application/json")
	made.Header.Set("Pacer-Operator", "tester")
	response, err := client.Do(made)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	reply, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(reply)
}
