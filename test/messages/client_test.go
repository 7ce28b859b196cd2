package messages_test

import (
	"testing"

	"github.com/pacer-notify/pacer/client"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// failure is the text of an error.
func failure(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	return err.Error()
}

func newClient(server string) error {
	_, err := client.New(client.Config{Server: server})
	return err
}

// api is a client of a deployment.
func api(t *testing.T, d *fleet) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: "http://" + d.process.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func enqueued(d *fleet, n client.Notification) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		_, err := api(t, d).Enqueue(t.Context(), n)
		return failure(t, err)
	}
}

// withinTx enqueues notifications within a transaction, and gives the error of the last.
func withinTx(d *fleet, all ...client.Notification) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		conn := postgrestest.Connect(t, d.settings.DatabaseURL)
		var last error
		for _, n := range all {
			_, last = client.EnqueueTx(t.Context(), conn, n)
		}
		return failure(t, last)
	}
}

// clientRows are errors of the public package.
func clientRows(d *fleet) []row {
	return []row{
		{
			name:    "an address that is none",
			provoke: func(t *testing.T) string { t.Helper(); return failure(t, newClient("pacer:8080")) },
			want:    "set up the client of pacer: server must be of the form http://host:port",
		},
		{name: "a negative number of attempts", provoke: func(t *testing.T) string {
			t.Helper()
			_, err := client.New(client.Config{Attempts: -1})
			return failure(t, err)
		}, want: "set up the client of pacer: attempts and times must not be negative"},
		{
			name:    "a refusal",
			provoke: enqueued(d, client.Notification{UserID: "ada", Channel: "log", Category: "chatt"}),
			want: `enqueue a notification: 422 Unprocessable Entity: category: "chatt" is not named in the ` +
				`policy; it ` +
				`names chat, default, security (did you mean chat?)`,
		},
		{
			name: "a text that is no UTF-8", provoke: enqueued(d, client.Notification{UserID: "ada", Title: "\xff"}),
			want: "enqueue a notification: 422 Unprocessable Entity: title: must be valid UTF-8",
		},
		{
			name: "data that is no JSON", provoke: enqueued(d, client.Notification{UserID: "ada", Data: []byte("{")}),
			want: `enqueue a notification: 422 Unprocessable Entity: data: must be a JSON object, such as ` +
				`{"order":17}, is no JSON`,
		},
		{name: "an unknown id", provoke: func(t *testing.T) string {
			t.Helper()
			_, err := api(t, d).Get(t.Context(), "nobody")
			return failure(t, err)
		}, want: `look up notification nobody: 404 Not Found: no such notification: "nobody" was never accepted, or ended so long ago that it is no longer kept`},
		{
			name:    "a refusal within a transaction",
			provoke: withinTx(d, client.Notification{UserID: "ada", Priority: "urgent"}),
			want: `enqueue a notification: 422 Unprocessable Entity: priority: must be critical, high, normal or ` +
				`low, ` +
				`is "urgent"`,
		},
		{
			name:    "a template within a transaction",
			provoke: withinTx(d, client.Notification{UserID: "ada", Template: &client.Template{Name: "hi"}}),
			want: "enqueue a notification: 422 Unprocessable Entity: template: only the API makes contents from " +
				"templates; give title and body",
		},
		{
			name:    "a key within a transaction",
			provoke: withinTx(d, client.Notification{UserID: "ada", IdempotencyKey: "k"}),
			want: "enqueue a notification: 422 Unprocessable Entity: idempotency_key: only the API keeps keys; " +
				"give an " +
				"id, which makes repeats one notification",
		},
		{
			name: "a conflict within a transaction",
			provoke: withinTx(
				d, client.Notification{ID: "tx", UserID: "ada", Title: "one"},
				client.Notification{ID: "tx", UserID: "ada", Title: "two"}),
			want: `enqueue a notification: 409 Conflict: id: "tx" was accepted before with other content: title ` +
				`differs; repeat it unchanged, or use another id`,
		},
	}
}
