package migrations_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/test/postgrestest"
)

// mostContent is how long title, body and data together may be on the channel that allows most.
const mostContent = 262_144

// The database accepts and refuses the same notifications as the API, apart from what the policy and the channels
// decide.
func TestEnqueueRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	rapid.Check(t, func(t *rapid.T) {
		n := drawNotification(t)
		body, err := json.Marshal(fields(n))
		if err != nil {
			t.Fatal(err)
		}
		var fault *string
		if err := conn.QueryRow(t.Context(), "SELECT pacer.fault($1::jsonb)", body).Scan(&fault); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if want := n.Validate(time.Now(), mostContent); (want == nil) != (fault == nil) {
			got := "nothing"
			if fault != nil {
				got = *fault
			}
			t.Fatalf("%s: the API says %v, the database says %s", body, want, got)
		}
	})
}

// fields is the JSON form of a notification.
func fields(n *notification.Notification) map[string]any {
	fields := map[string]any{
		"id": n.ID, "user_id": n.UserID, "category": n.Category, "channel": n.Channel, "to": n.To, "title": n.Title,
		"body": n.Body, "priority": n.Priority.String(), "collapse_key": n.CollapseKey, "group_key": n.GroupKey,
	}
	if len(n.Data) > 0 {
		fields["data"] = n.Data
	}
	for name, at := range map[string]time.Time{"send_at": n.SendAt, "expires_at": n.ExpiresAt} {
		if !at.IsZero() {
			fields[name] = at
		}
	}
	return fields
}

// drawNotification draws a notification that is near the limits of its fields.
func drawNotification(t *rapid.T) *notification.Notification {
	text := func(label string, most int) string {
		size := rapid.SampledFrom([]int{0, 1, most - 1, most, most + 1}).Draw(t, label+" size")
		letter := rapid.SampledFrom([]string{"a", "a", "a", "ü", "\n", "\u0085", "\x7f"}).Draw(t, label+" letter")
		return strings.Repeat("x", max(0, size-len(letter))) + letter[:min(len(letter), max(size, 0)*len(letter))]
	}
	now := time.Now()
	moments := []time.Time{
		{},
		now.Add(-time.Hour), now.Add(time.Hour), now.Add(2 * time.Hour), now.Add(89 * 24 * time.Hour),
		now.Add(91 * 24 * time.Hour),
	}
	n := &notification.Notification{
		ID: rapid.SampledFrom([]string{
			"a", ".", "..", "a/b", "ü", strings.Repeat("i", 64), strings.Repeat("i", 65), "A-z.0:_",
		}).Draw(t, "id"),
		UserID:   text("user", 256),
		Category: "chat",
		Channel: rapid.SampledFrom([]notification.Channel{
			"webhook", "fcm", "apns", "webpush", "log", "email", "fcm:shop", "email:billing", "webhook:partner",
		}).Draw(t, "channel"),
		To:    text("to", 4096),
		Title: rapid.SampledFrom([]string{"", "title\n"}).Draw(t, "title"),
		Body: strings.Repeat("b",
			rapid.SampledFrom([]int{0, 4080, 4096, 4097, 262_144, 262_145}).Draw(t, "body")),
		Priority:    rapid.SampledFrom([]notification.Priority{1, 2, 3, 4}).Draw(t, "priority"),
		SendAt:      rapid.SampledFrom(moments).Draw(t, "send_at"),
		ExpiresAt:   rapid.SampledFrom(moments).Draw(t, "expires_at"),
		CollapseKey: text("collapse_key", 64), GroupKey: text("group_key", 64),
	}
	return n
}

func TestEnqueueIsPartOfTheCallersTransaction(t *testing.T) {
	t.Parallel()
	conn := postgrestest.Connect(t, postgrestest.URL(t))
	enqueue := func(tx pgx.Tx, body string) (id string, err error) {
		return id, tx.QueryRow(t.Context(), "SELECT pacer.enqueue($1)", body).Scan(&id)
	}
	within := func(commit bool, bodies ...string) []string {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, body := range bodies {
			id, err := enqueue(tx, body)
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			ids = append(ids, id)
		}
		if commit {
			err = tx.Commit(t.Context())
		} else {
			err = tx.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	within(false, `{"id":"never","user_id":"ada"}`)
	ids := within(true, `{"id":"once","user_id":"ada","data":{"a":[1,2]},"priority":"high"}`,
		`{"id":"once","user_id":"ada","data":{"a": [1.0, 2]},"priority":"high"}`, `{"user_id":"ada","data":null}`)
	if ids[0] != "once" || ids[1] != "once" || len(ids[2]) != 36 || ids[2][14] != '7' {
		t.Errorf("ids %v, want once twice and a UUID of version 7", ids)
	}
	if n := count(t, conn, "SELECT count(*) FROM pacer.notifications"); n != 2 {
		t.Errorf("%d notifications, want 2", n)
	}
	if n := count(t, conn, "SELECT count(*) FROM pacer.outbox"); n != 2 {
		t.Errorf("%d in the outbox, want 2", n)
	}
}

func TestEnqueueSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	url := postgrestest.URL(t)
	for body, want := range map[string]string{
		`[]`:                                    "must be a JSON object",
		`{}`:                                    "user_id: is required",
		`{"user_id":5}`:                         "user_id: must be a string, is a number",
		`{"user_id":"ada","colour":"red"}`:      "colour: is not a field of a notification; its fields are id,",
		`{"user_id":"ada","data":[1]}`:          "data: must be a JSON object",
		`{"user_id":"ada","priority":"urgent"}`: `priority: must be critical, high, normal or low, is "urgent"`,
		`{"user_id":"ada","send_at":"tomorrow?"}`: `send_at: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is "tomorrow?"`,
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := postgrestest.Connect(t, url).Exec(t.Context(), "SELECT pacer.enqueue($1)", body)
			refused, ok := errors.AsType[*pgconn.PgError](err)
			if !ok || refused.Code != "22023" || !strings.Contains(refused.Message, want) {
				t.Errorf("%s: %v, want 22023 %s", body, err, want)
			}
		})
	}
}

func TestContentInAChannelsOwnFormat(t *testing.T) {
	t.Parallel()
	const fields = "id, user_id, category, channel, to, title, body, priority, send_at, expires_at, collapse_key, group_key, data"
	url := postgrestest.URL(t)
	for _, c := range []struct{ name, body, want string }{
		{name: "of its channel", body: `{"user_id":"ada","channel":"fcm","fcm":{"android":{}}}`},
		{name: "of a sender with a name", body: `{"user_id":"ada","channel":"fcm:shop","fcm:shop":{"android":{}}}`},
		{
			name: "of its kind", body: `{"user_id":"ada","channel":"fcm:shop","fcm":{}}`,
			want: "fcm: is not a field of a notification; its fields are " + fields,
		},
		{
			name: "of a channel that the schema has never heard of",
			body: `{"user_id":"ada","channel":"pigeon","pigeon":{"speed":3}}`,
		},
		{
			name: "of another channel", body: `{"user_id":"ada","channel":"pigeon","fcm":{}}`,
			want: "fcm: is not a field of a notification; its fields are " + fields,
		},
		{
			name: "no object", body: `{"user_id":"ada","channel":"pigeon","pigeon":3}`,
			want: `pigeon: must be a JSON object, such as {"order":17}, is a number`,
		},
		{
			name: "too long",
			body: `{"user_id":"ada","channel":"pigeon","pigeon":{"x":"` + strings.Repeat("x", 262_144) + `"}}`,
			want: "pigeon: may have at most 262144 bytes, has 262153",
		},
		{
			name: "of a channel named as a field", body: `{"user_id":"ada","channel":"data","data":3}`,
			want: `data: must be a JSON object, such as {"order":17}, is a number`,
		},
		{name: "no notification", body: `[]`, want: "notification: must be a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var fault string
			err := postgrestest.Connect(t, url).QueryRow(t.Context(), "SELECT coalesce(pacer.fault($1::jsonb), '')",
				c.body).Scan(&fault)
			if err != nil || fault != c.want {
				t.Errorf("the fault is %q, %v, want %q", fault, err, c.want)
			}
		})
	}
}
