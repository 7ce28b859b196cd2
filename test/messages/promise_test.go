package messages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

const oneLine = `{"user_id":"USER","channel":"log"}` + "\n"

// cannotTell is the beginning of what is said while Redis does not respond.
const cannotTell = "no promise can be made now"

// behindTen hands over ten notifications for a user, as many as the policy allows in a minute, and then calls path with
// the body of another. USER stands for the user, SOON for a moment within that minute. While a busy Redis does not
// respond it calls again, as a client does.
func (d *fleet) behindTen(user, path, body string) func(*testing.T) string {
	of := func(text string) string {
		soon := time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339)
		return strings.NewReplacer("USER", user, "SOON", soon).Replace(text)
	}
	return func(t *testing.T) string {
		t.Helper()
		ten := of(strings.Repeat(oneLine, 10))
		said := d.call(http.MethodPost, "/v1/notifications/bulk", "application/x-ndjson", ten)(t)
		if !strings.HasPrefix(said, `{"accepted":10,`) {
			t.Fatalf("ten that go before it: %s", said)
		}
		mediaType := "application/json"
		if strings.Contains(path, "bulk") {
			mediaType = "application/x-ndjson"
		}
		for deadline := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) {
			said = d.call(http.MethodPost, path, mediaType, of(body))(t)
			if !strings.HasPrefix(said, cannotTell) || time.Now().After(deadline) {
				return said
			}
		}
	}
}

// promisePaused asks when something would go of a category that is paused.
func promisePaused(t *testing.T) string {
	t.Helper()
	d := deploy(t)
	d.act(http.MethodPost, "/actions", `{"action":"pause","kind":"category","name":"chat","why":"quota"}`)(t)
	const ask = `{"user_id":"ada","channel":"log","category":"chat","max_wait":"30s"}`
	said := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(said, "paused"); <-time.After(20 * time.Millisecond) {
		if said = d.post(ask)(t); time.Now().After(deadline) {
			t.Fatalf("the pause is not known: %s", said)
		}
	}
	return said
}

// promiseWithoutRedis asks while Redis is away, and Postgres could accept.
func promiseWithoutRedis(t *testing.T) string {
	t.Helper()
	server, d := redistest.Start(t), &fleet{log: &processLog{}}
	d.settings = resolved(t, server.URL(), "")
	d.settings.Setup, d.settings.DatabaseURL = settings.SetupDurable, postgrestest.URL(t)
	d.process = start(t, d.settings, d.log)
	server.Kill()
	defer server.Restart()
	const ask = `{"user_id":"ada","channel":"log"}`
	return d.call(http.MethodPost, "/v1/notifications?promise=true", "application/json", ask)(t)
}

// promiseRows are refusals of what would come too late, and of who asks when something comes.
func promiseRows(d *fleet) []row {
	const one, many = "/v1/notifications", "/v1/notifications/bulk"
	return []row{
		{
			name:    "too late for max_wait",
			provoke: d.behindTen("late1", one, `{"user_id":"USER","channel":"log","max_wait":"1s"}`),
			want:    "the earliest moment is <any>Z (limit 10/1m), too late for max_wait 1s; it was not accepted",
		},
		{
			name:    "too late for its end",
			provoke: d.behindTen("late2", one+"?promise=true", `{"user_id":"USER","channel":"log","expires_at":"SOON"}`),
			want:    "the earliest moment is <any>Z (limit 10/1m), too late for expires_at <any>Z; it was not accepted",
		},
		{
			name:    "too late in a batch",
			provoke: d.behindTen("late3", many+"?results=errors", oneLine+`{"user_id":"USER","channel":"log","max_wait":"0s"}`),
			want: `{"accepted":1,"repeated":0,"rejected":1,"results":[{"index":1,"error":"the earliest moment is <any>Z ` +
				`(limit 10/1m), too late for max_wait 0s; it was not accepted","type":"too-late","deliver_at":"<any>Z",` +
				`"reason":"limit 10/1m"}]}`,
		},
		{
			name: "nobody can tell", provoke: promisePaused,
			want: "it can't be known whether it would go within max_wait 30s (paused_by_operator); it was not accepted: send it " +
				"without max_wait, or try again later",
		},
		{
			name:    "a negative max_wait",
			provoke: d.post(`{"user_id":"ada","channel":"log","max_wait":"-1s"}`),
			want:    `max_wait: must be a duration of 0s or more, such as 30s, 10m or 24h, is "-1s"`,
		},
		{
			name:    "a number as max_wait",
			provoke: d.post(`{"user_id":"ada","channel":"log","max_wait":30}`),
			want:    "max_wait: must be a string, is a number",
		},
		{
			name: "no word for a promise",
			provoke: d.call(http.MethodPost, one+"?promise=maybe", "application/json",
				`{"user_id":"ada","channel":"log"}`),
			want: "promise: must be true or false",
		},
		{
			name: "promises for too many",
			provoke: d.call(http.MethodPost, many+"?promise=true", "application/x-ndjson",
				strings.Repeat(oneLine, 1001)),
			want: "with ?promise=true or max_wait a batch may have at most 1000 items, this one has 1001; split it",
		},
		{
			name: "Redis away", provoke: promiseWithoutRedis,
			want: cannotTell + ", because Redis does not respond, is being rebuilt or has yet to catch up; " +
				"nothing was accepted: try again, or send it without promise and max_wait",
		},
		{
			name:    "too late, by enqueue",
			provoke: enqueueTooLate(d, "late4"),
			want: "enqueue: refused: the earliest moment is <any>Z (limit 10/1m), too late for max_wait 1s; it was not " +
				"accepted\naccepted 0, repeated 0, refused 1 in <any>",
		},
	}
}

// enqueueTooLate is behindTen with the enqueue command.
func enqueueTooLate(d *fleet, user string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		d.behindTen(user, "/v1/notifications", oneLine)(t)
		return enqueue(d, "", "--user", user, "--channel=log", "--max-wait=1s")(t)
	}
}
