package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/client"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

const contractPolicy = "version: 1\ncategories:\n  default: {limits: []}\n  chat: {limits: []}\n"

// verdict is what a way in says of a notification.
type verdict struct {
	// field is the first that is refused; empty when the notification was accepted.
	field string
	// conflict is true when the id was accepted with other content; field differs then.
	conflict bool
	text     string
	id       string
}

// refusedAs reads a refusal that begins with its field.
func refusedAs(text string) verdict {
	field, _, _ := strings.Cut(text, ": ")
	return verdict{field: field, text: text}
}

// sqlWay is the way in through SQL alone.
const sqlWay = "pacer.enqueue"

// way is one way in.
type way struct {
	name string
	hand func(t *testing.T, body string) verdict
	// throughGo is true when the notification is a Go value first, so that not every JSON can go this way.
	throughGo bool
	// throughPostgres is true when the deployment sees the notification only after it was accepted.
	throughPostgres bool
}

// contractWays are the ways into a deployment on Postgres. The client and the enqueue program send requests of the API.
func contractWays(d *fleet) []way {
	return []way{
		{name: "HTTP", hand: func(t *testing.T, body string) verdict { return overHTTP(t, d, body) }},
		{name: "HTTP bulk", hand: func(t *testing.T, body string) verdict { return overBulk(t, d, body) }},
		{name: "EnqueueTx", throughGo: true, throughPostgres: true, hand: func(t *testing.T, body string) verdict {
			return byTx(t, d, inGo(t, body))
		}},
		{name: sqlWay, throughPostgres: true, hand: func(t *testing.T, body string) verdict {
			return bySQL(t, d, body)
		}},
	}
}

func overHTTP(t *testing.T, d *fleet, body string) verdict {
	t.Helper()
	var reply struct {
		ID, Type, Detail string
		Errors           []struct{ Location string }
	}
	status := d.call(http.MethodPost, "/v1/notifications", []byte(body), nil, &reply)
	switch {
	case status < http.StatusMultipleChoices:
		return verdict{id: reply.ID}
	case len(reply.Errors) == 0:
		t.Fatalf("refused with %d and no field: %s", status, reply.Detail)
	}
	return verdict{
		field: strings.TrimPrefix(reply.Errors[0].Location, "body."), text: reply.Detail,
		conflict: status == http.StatusConflict && reply.Type == "id-conflict",
	}
}

func overBulk(t *testing.T, d *fleet, body string) verdict {
	t.Helper()
	var reply struct {
		Results []struct{ ID, Type, Error string }
	}
	header := http.Header{"Content-Type": {"application/x-ndjson"}}
	status := d.call(http.MethodPost, "/v1/notifications/bulk", []byte(body), header, &reply)
	if status != http.StatusOK {
		t.Fatalf("the bulk is refused with %d", status)
	}
	if result := reply.Results[0]; result.Error != "" {
		return inConflict(refusedAs(result.Error), result.Type == "id-conflict")
	}
	return verdict{id: reply.Results[0].ID}
}

// inConflict finds the first field that differs in a conflict's text.
func inConflict(v verdict, conflict bool) verdict {
	if !conflict {
		return v
	}
	_, differs, _ := strings.Cut(v.text, "other content: ")
	v.conflict, v.field = true, strings.FieldsFunc(differs, func(r rune) bool { return r == ' ' || r == ',' })[0]
	return v
}

// inGo makes the Go value of a notification, and skips what none can hold.
func inGo(t *testing.T, body string) client.Notification {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(strings.ReplaceAll(body, `_at":""`, `_at":null`))))
	decoder.DisallowUnknownFields()
	var n client.Notification
	if err := decoder.Decode(&n); err != nil {
		t.Skipf("no Go value is this notification: %v", err)
	}
	return n
}

func byClient(t *testing.T, err error) verdict {
	t.Helper()
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || len(refused.Fields) == 0 {
		t.Fatalf("%v, want an error of the client with a field", err)
	}
	return verdict{field: refused.Fields[0].Field, text: refused.Detail, conflict: errors.Is(err, client.ErrConflict)}
}

// byTx enqueues within a transaction, which must be usable whatever becomes of the notification.
func byTx(t *testing.T, d *fleet, n client.Notification) verdict {
	t.Helper()
	var v verdict
	conn := postgrestest.Connect(t, d.databaseURL)
	if err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		id, err := client.EnqueueTx(t.Context(), tx, n)
		if v = (verdict{id: id}); err != nil {
			v = byClient(t, err)
		}
		_, err = client.EnqueueTx(t.Context(), tx, client.Notification{UserID: "ada", Channel: "log"})
		return err
	}); err != nil {
		t.Errorf("the transaction can't go on after %q: %v", v.text, err)
	}
	return v
}

func bySQL(t *testing.T, d *fleet, body string) verdict {
	t.Helper()
	var id string
	conn := postgrestest.Connect(t, d.databaseURL)
	err := conn.QueryRow(t.Context(), "SELECT pacer.enqueue($1::text::jsonb)", body).Scan(&id)
	if err == nil {
		return verdict{id: id}
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		t.Fatal(err)
	}
	v := refusedAs(strings.TrimPrefix(refused.Message, "pacer.enqueue: "))
	if refused.Code == "23505" {
		_, differs, _ := strings.Cut(v.text, "differs: ")
		v.conflict = true
		v.field, _, _ = strings.Cut(differs, ",")
	}
	return v
}

// Every way in gives the same verdict on the same notification, and on one whose id comes again. What only the
// deployment can tell ends as failed, with a reason that names the field.
func TestOneContractForEveryWayIn(t *testing.T) {
	t.Parallel()
	d, r := newDeployment(t, onPostgres, contractPolicy, 1), newReceiver(t)
	ways := contractWays(d)
	for i, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range contractCases() {
				t.Run(c.name, func(t *testing.T) { // not parallel: a way may be one connection
					handOver(t, d, w, c, r.server.URL)
				})
			}
			comesAgain(t, w, ways, "first-"+string(rune('a'+i)))
		})
	}
}

// comesAgain: an id that comes again is a repeat, whichever way it comes; with other content it is a conflict.
func comesAgain(t *testing.T, first way, ways []way, id string) {
	t.Helper()
	body := `{"id":"` + id + `","user_id":"ada","channel":"log","title":"one",` +
		`"data":{"b":[1.50,null],"a":"<"},"send_at":"2020-01-01T00:00:00.123456789+01:00"}`
	if v := first.hand(t, body); v.id != id {
		t.Fatalf("the first: %+v", v)
	}
	for _, again := range ways {
		if v := again.hand(t, body); v.id != id {
			t.Errorf("%s: a repeat: %+v", again.name, v)
		}
		for field, other := range map[string]string{
			"title": strings.Replace(body, "one", "two", 1), "data": strings.Replace(body, "1.50", "1.51", 1),
			"user_id": strings.Replace(body, "ada", "bob", 1), "send_at": strings.Replace(body, "00.123", "01.123", 1),
		} {
			v := again.hand(t, other)
			if !v.conflict || v.field != field || !strings.Contains(v.text, id) {
				t.Errorf("%s: another %s: %+v, want a conflict", again.name, field, v)
			}
		}
	}
}

// handOver hands one notification over in one way, and compares the verdict with the one wanted.
func handOver(t *testing.T, d *fleet, w way, c contractCase, hook string) {
	t.Helper()
	if c.notInGo && w.throughGo {
		t.Skip("no Go value has this fault")
	}
	got := w.hand(t, strings.ReplaceAll(c.body, "HOOK", hook))
	want := c.field
	later := w.throughPostgres && c.later || c.sized && w.name == sqlWay
	switch {
	case later, c.unseen && w.name == sqlWay:
		want = ""
	case c.garbled && w.name == sqlWay:
		want = got.field
	}
	if got.field != want || (got.id == "") != (got.field != "") {
		t.Fatalf("refused for %q (%s), want %q", got.field, got.text, want)
	}
	if later {
		failedFor(t, d, got.id, c.field)
	}
}

// failedFor waits until a notification has ended as failed, for a reason that names the field.
func failedFor(t *testing.T, d *fleet, id, field string) {
	t.Helper()
	var v view
	d.awaitStats("the notification has ended", func(stats) bool {
		v = d.view(id)
		return v.Status == "failed"
	})
	if !strings.HasPrefix(v.Reason, "refused: "+field+": ") {
		t.Errorf("%s failed because of %q, want a reason that names %s", id, v.Reason, field)
	}
}
