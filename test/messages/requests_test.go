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
			name:    "an endpoint without a URL",
			provoke: d.call("POST", "/v1/webhook-endpoints", "application/json", "{}"),
			want:    "url: is required",
		},
		{
			name: "an endpoint's header that is pacer's own",
			provoke: d.call("POST", "/v1/webhook-endpoints", "application/json",
				`{"url":"https://example.com","headers":{"host":"x"}}`),
			want: `headers: "Host" can't be set: pacer or the connection sets it`,
		},
		{
			name: "an endpoint with an unknown signature",
			provoke: d.call("POST", "/v1/webhook-endpoints", "application/json",
				`{"url":"https://example.com","signing":"rsa"}`),
			want: `signing: is "rsa"; it must be hmac or ed25519`,
		},
		{
			name: "an unknown endpoint", provoke: d.call("GET", "/v1/webhook-endpoints/x", "", ""),
			want: "no webhook endpoint has this id",
		},
		{
			name: "a bad max_wait", provoke: d.post(`{"user_id":"ada","max_wait":"soon"}`),
			want: `max_wait: must be a duration of 0s or more, such as 30s, 10m or 24h, is "soon"`,
		},
		{
			name: "no JSON", provoke: d.post(`{"user_id":`),
			want: "the body is not the JSON of a notification: it ends too early, after 11 bytes",
		},
		{
			name: "broken JSON", provoke: d.post(`{"user_id":"ada",}`),
			want: "the body is not the JSON of a notification: it is not valid JSON from byte 17 on",
		},
		{
			name: "a list", provoke: d.post("[]"),
			want: `the body is not the JSON of a notification: it must be an object, such as {"user_id":"ada"}`,
		},
		{
			name: "something behind", provoke: d.post(`{"user_id":"ada"} {}`),
			want: "the body is not the JSON of a notification: there is more text after the object, from byte 20 on",
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
			want: "the body is empty; send application/json or application/x-ndjson, as /docs shows",
		},
		{
			name: "a bulk that is no list", provoke: d.call("POST", "/v1/notifications/bulk", "application/json", "{}"),
			want: "the body is not a JSON array of notifications: its items must be in [ ]; to send one object a line, set the Content-Type to application/x-ndjson",
		},
		{
			name: "a bulk of broken JSON", provoke: d.call("POST", "/v1/notifications/bulk", "application/json", "[{]"),
			want: "the body is not a JSON array of notifications: it is not valid JSON from byte 3 on",
		},
		{
			name:    "a large bulk",
			provoke: d.call("POST", "/v1/notifications/bulk", "application/x-ndjson", strings.Repeat("{}\n", 10_001)),
			want:    "a batch may have at most 10000 items, this one has 10001; split it",
		},
		{
			name:    "results of another kind",
			provoke: d.call("POST", "/v1/notifications/bulk?results=none", "application/json", "[{}]"),
			want:    `results: must be errors or all, is "none"`,
		},
		{
			name: "an unknown path", provoke: d.call("GET", "/v1/notification", "", ""),
			want: "there is nothing at this path; /docs lists the paths that exist",
		},
		{
			name: "another method", provoke: d.call("PATCH", "/v1/notifications", "", ""),
			want: "this path accepts GET or POST",
		},
		{
			name: "an unknown id", provoke: d.call("GET", "/v1/notifications/nobody", "", ""),
			want: `no such notification: "nobody" was never accepted, or ended so long ago that it is no longer kept`,
		},
		{
			name: "cancelling an unknown id", provoke: d.call("DELETE", "/v1/notifications/nobody", "", ""),
			want: `no such notification: "nobody" was never accepted, or ended so long ago that it is no longer kept`,
		},
		{
			name: "cancelling what has ended", provoke: d.cancelEnded(),
			want: "ended is delivered: only a notification that waits can be cancelled",
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
			name:    "an offset for a user's time zone",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json", `{"time_zone":"+02:00"}`),
			want: `time_zone: "+02:00" is an offset, which has no daylight saving time: use a zone such as ` +
				`Europe/Vienna`,
		},
		{
			name: "quiet hours in a window that there is not",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"window":"nite"}}`),
			want: `quiet_hours: the policy has no window named "nite"; it has none`,
		},
		{
			name: "a date that does not exist",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"dates":["2026-02-30"]}}`),
			want: `quiet_hours: dates[0]: "2026-02-30" is not a date: write one that exists, such as 2026-12-24`,
		},
		{
			name: "own hours that are always closed",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"closed":[{"from":"00:00","to":"24:00"}]}}`),
			want: "quiet_hours: is never open: nothing could ever go out",
		},
		{
			name: "own hours of nothing",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"closed":[{"from":"08:00","to":"08:00"}]}}`),
			want: "quiet_hours: the range 08:00-08:00 begins where it ends: 00:00-24:00 is a whole day",
		},
		{
			name: "too many own hours",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"closed":[`+strings.Repeat(`{"from":"01:00","to":"02:00"},`, 16)+
					`{"from":"01:00","to":"02:00"}]}}`),
			want: "quiet_hours: has 17 ranges, may have at most 16",
		},
		{
			name: "own hours of two kinds",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_hours":{"off":true,"window":"night"}}`),
			want: `quiet_hours: must be {"window": "NAME"} with a window of the policy, {"closed": [{"days": ["mon-fri"], ` +
				`"from": "22:00", "to": "08:00"}], "dates": []}, the same with open, or {"off": true}`,
		},
		{
			name: "an unknown time zone",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"time_zone":"Europe/Wien"}`),
			want: `time_zone: "Europe/Wien" is not a time zone: use one from the IANA database, such as Europe/Vienna`,
		},
		{
			name: "quiet until a word",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_until":"soon"}`),
			want: "quiet_until: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z",
		},
		{
			name:    "preferences of nobody",
			provoke: d.call("POST", "/v1/preferences/bulk", "application/json", "[]"),
			want:    "the batch is empty: send at least one user",
		},
		{
			name:    "preferences of one user as a batch",
			provoke: d.call("POST", "/v1/preferences/bulk", "application/json", `{"user_id":"ada"}`),
			want:    "the body is not a JSON array of users' preferences: its items must be in [ ]; to send one object a line, set the Content-Type to application/x-ndjson",
		},
		{
			name: "a body that is too long",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json",
				`{"channel":"log"}`+strings.Repeat(" ", 1<<16)),
			want: "the body is too long: it may have at most 65536 bytes",
		},
		{
			name:    "preferences of too many",
			provoke: d.call("POST", "/v1/preferences/bulk", "application/x-ndjson", strings.Repeat("{}\n", 1001)),
			want:    "a batch may have at most 1000 users, this one has 1001; split it",
		},
		{
			name: "preferences that can't be, in a batch",
			provoke: d.call("POST", "/v1/preferences/bulk", "application/x-ndjson", strings.Join([]string{
				`{"user_id":"ada","zone":"x"}`, `{"time_zone":"Europe/Wien"}`, `{"user_id":5}`, `7`, `{"user_id":`,
				`{"user_id":"ada","quiet_hours":{"window":"nite"}}`, `{"user_id":"ada","quiet_until":"soon"}`,
				`{"user_id":"ada","opt_out":{"channels":"log"}}`,
			}, "\n")),
			want: strings.Join([]string{
				`{"accepted":0,"rejected":8,"results":[` +
					`{"index":0,"error":"zone: is not a field of preferences; an item has limits, opt_out, quiet_hours, quiet_until, ` +
					`time_zone, user_id"}`,
				`{"index":1,"error":"user_id: is required; time_zone: \"Europe/Wien\" is not a time zone: use one from the IANA database, such as Europe/Vienna"}`,
				`{"index":2,"error":"user_id: can't hold a JSON number"}`,
				`{"index":3,"error":"must be an object, such as {\"user_id\":\"ada\",\"time_zone\":\"Europe/Vienna\"}"}`,
				`{"index":4,"error":"is not a JSON object, or ends too early"}`,
				`{"index":5,"user_id":"ada","error":"quiet_hours: the policy has no window named \"nite\"; it has none"}`,
				`{"index":6,"error":"quiet_until: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z"}`,
				`{"index":7,"error":"opt_out.channels: can't hold a JSON string"}]}`,
			}, ","),
		},
		{
			name: "quiet until far away",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"quiet_until":"2126-01-01T00:00:00Z"}`),
			want: "quiet_until: must be at most 366 days ahead",
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
			want:    "to: is required",
		},
		{
			name:    "a device with a misspelt field",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"chanel":"webhook","to":"x"}`),
			want:    "channel: is required; chanel: is not a field here; the fields are channel, to (did you mean channel?)",
		},
		{
			name:    "a number as channel",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"channel":1,"to":"x"}`),
			want:    "channel: must be a string",
		},
		{
			name: "a list as device", provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", "[1]"),
			want: "body: must be an object",
		},
		{
			name:    "half a device",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", `{"channel":"webhook"`),
			want:    "body: is not valid JSON: it ends too early",
		},
		{
			name:    "a device without quotes",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", "{channel}"),
			want:    "body: is not valid JSON: invalid character 'c' looking for beginning of object key string",
		},
		{
			name:    "a device of another media type",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "text/plain", "x"),
			want:    `body: the Content-Type is "text/plain"; send application/json`,
		},
		{
			name:    "an empty device",
			provoke: d.call("PUT", "/v1/users/ada/devices/phone", "application/json", ""),
			want:    "the body is empty; send application/json, as /docs shows",
		},
		{
			name:    "preferences with a misspelt field",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json", `{"optout":{}}`),
			want: "optout: is not a field here; the fields are limits, opt_out, quiet_hours, quiet_until, time_zone, updated_at " +
				"(did you mean opt_out?)",
		},
		{
			name: "a word for a list of preferences",
			provoke: d.call("PUT", "/v1/users/ada/preferences", "application/json",
				`{"opt_out":{"channels":"webhook"}}`),
			want: "opt_out.channels: must be an array",
		},
		{
			name: "an empty notification", provoke: d.post(""),
			want: "the body is empty; send application/json, as /docs shows",
		},
		{
			name:    "a bulk of nothing",
			provoke: d.call("POST", "/v1/notifications/bulk", "application/json", "[]"),
			want:    "the batch is empty: send at least one notification",
		},
		{
			name: "a parameter that is none", provoke: d.call("GET", "/v1/users/ada/throttle?categry=x", "", ""),
			want: "categry: is not a parameter of this call, which takes category (did you mean category?)",
		},
		{
			name: "a list of an unknown status", provoke: d.call("GET", "/v1/notifications?status=faild", "", ""),
			want: `status: unknown status "faild": use one of <any>, sending (did you mean failed?)`,
		},
		{
			name: "a list that is too long", provoke: d.call("GET", "/v1/notifications?limit=5000", "", ""),
			want: `limit: must be a number from 1 to 1000, is "5000"`,
		},
		{
			name: "a history that is too long", provoke: d.call("GET", "/v1/history?since=90d", "", ""),
			want: "since: may be at most 30d ago: older history is not kept",
		},
		{
			name: "a history of an unknown category", provoke: d.call("GET", "/v1/history?category=chatt", "", ""),
			want: `category: unknown category "chatt": use one of chat, default, security (did you mean chat?)`,
		},
		{
			name: "an unknown device", provoke: d.call("GET", "/v1/users/ada/devices/nobody", "", ""),
			want: "the user has no device with this id",
		},
	}
}
