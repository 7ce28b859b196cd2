package messages_test

import (
	"strings"
	"testing"
	"time"
)

// cancelEnded cancels a notification that has been delivered.
func (d *fleet) cancelEnded() func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		d.post(`{"id":"ended","user_id":"ada","channel":"log","category":"security"}`)(t)
		get := d.call("GET", "/v1/notifications/ended", "", "")
		deadline := time.Now().Add(time.Minute)
		for ; !strings.Contains(get(t), `"delivered"`); <-time.After(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not delivered")
			}
		}
		return d.call("DELETE", "/v1/notifications/ended", "", "")(t)
	}
}

// requestRows are refusals of a request to the API.
func requestRows(d *fleet) []row {
	return []row{
		{
			name: "no JSON", provoke: d.post(`{"user_id":`),
			want: "the body is not the JSON of a notification: it ends too early, after 11 bytes",
		},
		{
			name: "broken JSON", provoke: d.post(`{"user_id":"ada",}`),
			want: "the body is not the JSON of a notification: it is no JSON from byte 17 on",
		},
		{
			name: "a list", provoke: d.post("[]"),
			want: `the body is not the JSON of a notification: it must be an object, such as {"user_id":"ada"}`,
		},
		{
			name: "something behind", provoke: d.post(`{"user_id":"ada"} {}`),
			want: "the body is not the JSON of a notification: something follows the object, from byte 20 on",
		},
		{
			name: "not UTF-8", provoke: d.post("{\"user_id\":\"\xff\"}"),
			want: "the body is not the JSON of a notification: it is not valid UTF-8",
		},
		{
			name: "another media type", provoke: d.call("POST", "/v1/notifications", "text/plain", "{}"),
			want: `Content-Type "text/plain" is not accepted here; send application/json`,
		},
		{
			name: "no media type", provoke: d.call("POST", "/v1/notifications", "", "{}"),
			want: "the Content-Type is missing; send application/json",
		},
		{
			name: "a bulk of another media type", provoke: d.call("POST", "/v1/notifications/bulk", "text/csv", "a,b"),
			want: `Content-Type "text/csv" is not accepted here; send application/x-ndjson or application/json`,
		},
		{
			name: "an empty bulk", provoke: d.call("POST", "/v1/notifications/bulk", "application/x-ndjson", ""),
			want: "request body is required",
		},
		{
			name: "a bulk that is no list", provoke: d.call("POST", "/v1/notifications/bulk", "application/json", "{}"),
			want: "the body is not a JSON array of notifications: its items must stand in [ ]; send one object a " +
				"line " +
				"as application/x-ndjson",
		},
		{
			name: "a bulk of broken JSON", provoke: d.call("POST", "/v1/notifications/bulk", "application/json", "[{]"),
			want: "the body is not a JSON array of notifications: it is no JSON from byte 3 on",
		},
		{
			name:    "a large bulk",
			provoke: d.call("POST", "/v1/notifications/bulk", "application/x-ndjson", strings.Repeat("{}\n", 10_001)),
			want:    "a batch may have at most 10000 items, this one has 10001; divide it",
		},
		{
			name:    "results of another kind",
			provoke: d.call("POST", "/v1/notifications/bulk?results=none", "application/json", "[{}]"),
			want:    `results: must be errors or all, is "none"`,
		},
		{
			name: "an unknown path", provoke: d.call("GET", "/v1/notification", "", ""),
			want: "there is nothing at this path; /docs lists what there is",
		},
		{
			name: "another method", provoke: d.call("PATCH", "/v1/notifications", "", ""),
			want: "this path accepts GET or POST",
		},
		{
			name: "an unknown id", provoke: d.call("GET", "/v1/notifications/nobody", "", ""),
			want: `no such notification: "nobody" was never accepted, or has ended longer ago than it is kept`,
		},
		{
			name: "cancelling an unknown id", provoke: d.call("DELETE", "/v1/notifications/nobody", "", ""),
			want: `no such notification: "nobody" was never accepted, or has ended longer ago than it is kept`,
		},
		{
			name: "cancelling what has ended", provoke: d.cancelEnded(),
			want: "already being delivered or ended",
		},
		{
			name:    "a throttle of an unknown category",
			provoke: d.call("GET", "/v1/users/ada/throttle?category=chatt", "", ""),
			want: `category: "chatt" is not named in the policy; it names chat, default, security (did you ` +
				`mean chat?)`,
		},
		{
			name: "opting out of an unknown category",
			provoke: d.call(
				"PUT", "/v1/users/ada/preferences", "application/json", `{"opt_out":{"categories":["chatt"]}}`),
			want: `opt_out.categories[0]: "chatt" is not named in the policy; it names chat, default, security (did ` +
				`you mean chat?)`,
		},
		{
			name: "opting out of an unknown channel",
			provoke: d.call(
				"PUT", "/v1/users/ada/preferences", "application/json", `{"opt_out":{"channels":["webhok"]}}`),
			want: `opt_out.channels[0]: "webhok" is not a configured channel; configured are log, webhook (did you ` +
				`mean webhook?)`,
		},
		{
			name: "limits that can't be",
			provoke: d.call(
				"PUT", "/v1/users/ada/preferences", "application/json",
				`{"limits":{"chat":{"limits":[{"max":0,"per":"1h"}]}}}`),
			want: "limits.chat: limits[0].max: must be between 1 and 1000000, is 0",
		},
		{
			name:    "a device of an unknown channel",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"channel":"pigeon","to":"x"}`),
			want:    `channel: "pigeon" is not a configured channel; configured are log, webhook`,
		},
		{
			name:    "a device that can't be",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"channel":"log","to":"x"}`),
			want:    `channel: "log" has no targets, so it has no devices`,
		},
		{
			name:    "a device without a target",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"channel":"webhook"}`),
			want:    "body: expected required property to to be present",
		},
		{
			name: "an unknown device", provoke: d.call("GET", "/v1/users/ada/devices/nobody", "", ""),
			want: "the user has no device with this id",
		},
	}
}
