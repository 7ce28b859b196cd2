package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/client"
	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/enqueue"
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

// contractWays are the ways into a deployment.
func contractWays(t *testing.T, d *fleet) []way {
	t.Helper()
	api, err := client.New(client.Config{Server: "http://" + d.apps[0].Addr()})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := app.NewProducer(t.Context(), d.settings(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := producer.Close(); err != nil {
			t.Error(err)
		}
	})
	inProcess := &enqueue.API{URL: "http://pacer.invalid", Client: enqueue.InProcess(producer.Handler)}
	ways := []way{
		{name: "HTTP", hand: func(t *testing.T, body string) verdict { return overHTTP(t, d, body) }},
		{name: "HTTP bulk", hand: func(t *testing.T, body string) verdict { return overBulk(t, d, body) }},
		{name: "enqueue with REDIS_URL", hand: func(t *testing.T, body string) verdict {
			return byEnqueue(t, inProcess, body)
		}},
		{name: "client", throughGo: true, hand: func(t *testing.T, body string) verdict {
			view, err := api.Enqueue(t.Context(), inGo(t, body))
			if err != nil {
				return byClient(t, err)
			}
			return verdict{id: view.ID}
		}},
		{name: "client, many", throughGo: true, hand: func(t *testing.T, body string) verdict {
			return byMany(t, api, inGo(t, body))
		}},
	}
	if d.databaseURL == "" {
		return ways
	}
	return append(ways,
		way{name: "EnqueueTx", throughGo: true, throughPostgres: true, hand: func(t *testing.T, body string) verdict {
			return byTx(t, d, inGo(t, body))
		}},
		way{name: sqlWay, throughPostgres: true, hand: func(t *testing.T, body string) verdict {
			return bySQL(t, d, body)
		}},
	)
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

func byEnqueue(t *testing.T, api *enqueue.API, body string) verdict {
	t.Helper()
	v := verdict{}
	_, err := enqueue.Run(t.Context(), enqueue.Config{
		API:      api,
		Refused:  func(_, why string) { v = inConflict(refusedAs(why), strings.Contains(why, "was accepted before")) },
		Accepted: func(r enqueue.Result) { v.id = r.ID },
	}, strings.NewReader(body+"\n"))
	if err != nil {
		t.Fatal(err)
	}
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

func byMany(t *testing.T, api *client.Client, n client.Notification) verdict {
	t.Helper()
	good := client.Notification{UserID: "ada", Channel: "log"}
	results, err := api.EnqueueMany(t.Context(), []client.Notification{good, n, good})
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err() != nil || results[2].Err() != nil || results[1].Index != 1 {
		t.Errorf("the notifications around it: %+v", results)
	}
	if err := results[1].Err(); err != nil {
		return inConflict(refusedAs(results[1].Error), errors.Is(err, client.ErrConflict))
	}
	return verdict{id: results[1].ID}
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

// Every way into every set-up gives the same verdict on the same notification. What only the deployment can tell ends
// as failed, with a reason that names the field.
func TestOneContractForEveryWayIn(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d, r := newDeployment(t, on, contractPolicy, 1), newReceiver(t)
			for _, w := range contractWays(t, d) {
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					for _, c := range contractCases() {
						t.Run(c.name, func(t *testing.T) { //nolint:paralleltest // a way may be one connection
							handOver(t, d, w, c, r.server.URL)
						})
					}
				})
			}
		})
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
	switch {
	case w.throughPostgres && c.later, c.unseen && w.name == sqlWay:
		want = ""
	case c.garbled && w.name == sqlWay:
		want = got.field
	}
	if got.field != want || (got.id == "") != (got.field != "") {
		t.Fatalf("refused for %q (%s), want %q", got.field, got.text, want)
	}
	if w.throughPostgres && c.later {
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

// An id that comes again is a repeat, whichever way it comes; with other content it is a conflict in all of them.
func TestAnIDThatComesAgain(t *testing.T) {
	t.Parallel()
	for _, on := range []setup{onRedis, onPostgres} {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, on, contractPolicy, 1)
			ways := contractWays(t, d)
			for i, first := range ways {
				t.Run(first.name, func(t *testing.T) {
					t.Parallel()
					id := "first-" + string(rune('a'+i))
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
							"title":   strings.Replace(body, "one", "two", 1),
							"data":    strings.Replace(body, "1.50", "1.51", 1),
							"user_id": strings.Replace(body, "ada", "bob", 1),
							"send_at": strings.Replace(body, "00.123", "01.123", 1),
						} {
							v := again.hand(t, other)
							if !v.conflict || v.field != field || !strings.Contains(v.text, id) {
								t.Errorf("%s: another %s: %+v, want a conflict", again.name, field, v)
							}
						}
					}
				})
			}
		})
	}
}

// A process that dies between claiming an id and keeping its notification leaves the id to its user.
func TestAnIDThatWasOnlyClaimed(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, contractPolicy, 1)
	ctx := context.WithoutCancel(t.Context())
	body := []byte(`{"id":"claimed","user_id":"ada","channel":"log"}`)
	if status := d.call(http.MethodPost, "/v1/notifications", body, nil, nil); status != http.StatusAccepted {
		t.Fatal(status)
	}
	keys, err := d.client().Keys(ctx, "pacer:{push-*}:n:claimed").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	d.awaitStats("it was delivered", func(s stats) bool { return s.Totals.Delivered == 1 })
	if err := d.client().Del(ctx, keys...).Err(); err != nil { // as a crash, or the retention
		t.Fatal(err)
	}
	other := bytes.Replace(body, []byte("ada"), []byte("somebody in another partition, or not: 17"), 1)
	again, tries := http.StatusServiceUnavailable, 0
	for ; again == http.StatusServiceUnavailable && tries < 100; tries++ {
		again = d.callOnce(http.MethodPost, "/v1/notifications", body, nil)
	}
	// A request that was refused may have been carried out. The next one is then a repeat.
	if again != http.StatusAccepted && (again != http.StatusOK || tries == 1) {
		t.Errorf("for its user: %d at try %d, want it accepted", again, tries)
	}
	if status := d.call(http.MethodPost, "/v1/notifications", other, nil, nil); status != http.StatusConflict {
		t.Errorf("for another user: %d, want a conflict", status)
	}
}
