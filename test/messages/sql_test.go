package messages_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/test/postgrestest"
)

// enqueueSQL enqueues a notification within a transaction of SQL.
func enqueueSQL(d *fleet, body string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		_, err := postgrestest.Connect(t, d.settings.DatabaseURL).Exec(t.Context(), "SELECT pacer.enqueue($1)", body)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok {
			t.Fatalf("%v, want an error of Postgres", err)
		}
		return refused.Code + " " + refused.Message
	}
}

// sqlRows are errors of pacer.enqueue, each with its code.
func sqlRows(d *fleet) []row {
	return []row{
		{
			name: "a list", provoke: enqueueSQL(d, "[]"),
			want: "22023 pacer.enqueue: notification: must be a JSON object",
		},
		{
			name: "no user", provoke: enqueueSQL(d, "{}"),
			want: "22023 pacer.enqueue: user_id: is required",
		},
		{
			name: "a number as title", provoke: enqueueSQL(d, `{"user_id":"ada","title":5}`),
			want: "22023 pacer.enqueue: title: must be a string, is a number",
		},
		{
			name: "an unknown field", provoke: enqueueSQL(d, `{"user_id":"ada","colour":"red"}`),
			want: "22023 pacer.enqueue: colour: is not a field of a notification; its fields are id, user_id, " +
				"category, channel, to, title, body, priority, send_at, expires_at, collapse_key, data",
		},
		{
			name: "a template", provoke: enqueueSQL(d, `{"user_id":"ada","template":{"name":"hi"}}`),
			want: "22023 pacer.enqueue: template: only the API makes contents from templates; give title and body",
		},
		{
			name: "an unknown priority", provoke: enqueueSQL(d, `{"user_id":"ada","priority":"urgent"}`),
			want: `22023 pacer.enqueue: priority: must be critical, high, normal or low, is "urgent"`,
		},
		{
			name: "a day as time", provoke: enqueueSQL(d, `{"user_id":"ada","send_at":"2027-01-31"}`),
			want: `22023 pacer.enqueue: send_at: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is ` +
				`"2027-01-31"`,
		},
		{
			name: "a list as data", provoke: enqueueSQL(d, `{"user_id":"ada","data":[1]}`),
			want: `22023 pacer.enqueue: data: must be a JSON object, such as {"order":17}, is an array`,
		},
		{name: "an id again with other content", provoke: func(t *testing.T) string {
			t.Helper()
			d.post(`{"id":"sql","user_id":"ada","channel":"log","title":"one"}`)(t)
			return enqueueSQL(d, `{"id":"sql","user_id":"ada","channel":"log","title":"two"}`)(t)
		}, want: `23505 pacer.enqueue: id: "sql" was accepted before with other content; what differs: title`},
	}
}
