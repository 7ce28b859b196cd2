package app_test

import (
	"strings"
	"time"
)

// contractCase is a notification that a producer hands over, and what every way in says of it.
type contractCase struct {
	name string
	// body is the notification in JSON. HOOK stands for a target that takes it.
	body string
	// field is the one that is refused; empty when the notification is accepted.
	field string
	// later is true when only the deployment can tell: what comes through Postgres ends as failed for that field.
	later bool
	// sized is true when the client can tell that the channel does not take so much, and SQL can't.
	sized bool
	// unseen is true when Postgres reads the JSON in a way that hides the fault, before pacer sees it.
	unseen bool
	// notInGo is true when a Go value made of the JSON has lost the fault.
	notInGo bool
	// garbled is true when Postgres refuses the JSON in its own words.
	garbled bool
}

// contractCases are the same for every way in and every set-up.
func contractCases() []contractCase {
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	with := func(members string) string { return `{"user_id":"ada","channel":"log",` + members + `}` }
	nested := func(levels int) string { return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels) }
	x := func(n int) string { return strings.Repeat("x", n) }
	return []contractCase{
		{name: "nothing but a user", body: `{"user_id":"ada","channel":"log"}`},
		{name: "a webhook", body: `{"user_id":"ada","to":"HOOK","title":"hi","body":"there","data":{"n":1}}`},
		{
			name: "empty fields are not given",
			body: with(`"id":"","category":"","to":"","title":"","body":"","priority":"","send_at":"",` +
				`"expires_at":"","collapse_key":""`),
		},
		{
			name: "null fields are not given",
			body: with(`"id":null,"category":null,"title":null,"data":null,"priority":null,` +
				`"send_at":null,"collapse_key":null`),
		},
		{name: "every priority", body: with(`"priority":"low"`)},
		{name: "an offset", body: with(`"send_at":"2020-01-02T03:04:05+05:30"`)},
		{name: "parts of a second", body: with(`"send_at":"2020-01-02T03:04:05.123456789Z"`)},
		{name: "a blank for the T, and a leap second", body: with(`"send_at":"2020-12-31 23:59:60-00:00"`)},
		{name: "an end", body: with(`"expires_at":"` + at(time.Hour) + `"`)},
		{name: "a collapse key", body: with(`"collapse_key":"` + x(64) + `"`)},
		{name: "characters of many bytes", body: with(`"title":"größer ☃ 雪"`)},
		{name: "lines in texts", body: with(`"title":"a\tb","body":"one\ntwo"`)},
		{name: "the deepest data", body: with(`"data":` + nested(63))},
		{name: "the longest user", body: `{"user_id":"` + x(256) + `","channel":"log"}`},
		{name: "the longest body", body: with(`"body":"` + x(262_144) + `"`)},
		{name: "nulls in data", body: with(`"data":{"a":null,"b":[null]}`)},

		{name: "no user", body: `{"channel":"log"}`, field: "user_id"},
		{name: "an empty user", body: `{"user_id":"","channel":"log"}`, field: "user_id"},
		{name: "a null user", body: `{"user_id":null,"channel":"log"}`, field: "user_id"},
		{name: "a number as user", body: `{"user_id":5,"channel":"log"}`, field: "user_id"},
		{name: "a long user", body: `{"user_id":"` + x(257) + `","channel":"log"}`, field: "user_id"},
		{name: "a line break in the user", body: `{"user_id":"a\nb","channel":"log"}`, field: "user_id"},
		{name: "a C1 control in the user", body: `{"user_id":"a\u0085b","channel":"log"}`, field: "user_id"},
		{name: "U+0000 in the user", body: `{"user_id":"a\u0000b","channel":"log"}`, field: "user_id", garbled: true},
		{
			name: "half a character in the user", field: "user_id", notInGo: true, garbled: true,
			body: `{"user_id":"a\ud800","channel":"log"}`,
		},
		{name: "half a character in data", body: with(`"data":{"a":"\udc00"}`), field: "data.a", garbled: true},
		{name: "a long id", body: with(`"id":"` + x(65) + `"`), field: "id"},
		{name: "a blank in the id", body: with(`"id":"a b"`), field: "id"},
		{name: "a slash in the id", body: with(`"id":"a/b"`), field: "id"},
		{name: "a slash as user", body: `{"user_id":"/","channel":"log"}`, field: "user_id"},
		{name: "two dots as user", body: `{"user_id":"..","channel":"log"}`, field: "user_id"},
		{name: "two dots as id", body: with(`"id":".."`), field: "id"},
		{name: "a line break after the id", body: with(`"id":"a\n"`), field: "id"},
		{name: "a list as id", body: with(`"id":["a"]`), field: "id"},
		{name: "an unknown priority", body: with(`"priority":"urgent"`), field: "priority"},
		{name: "a priority in capitals", body: with(`"priority":"HIGH"`), field: "priority"},
		{name: "a number as priority", body: with(`"priority":1`), field: "priority"},
		{name: "a word as send_at", body: with(`"send_at":"tomorrow"`), field: "send_at"},
		{name: "a day as send_at", body: with(`"send_at":"2027-01-31"`), field: "send_at"},
		{name: "a day that no calendar has", body: with(`"send_at":"2027-02-30T00:00:00Z"`), field: "send_at"},
		{name: "hour 24", body: with(`"send_at":"2027-01-31T24:00:00Z"`), field: "send_at"},
		{name: "second 60 of another minute", body: with(`"send_at":"2027-01-31T23:58:60Z"`), field: "send_at"},
		{name: "one digit as hour", body: with(`"send_at":"2027-01-31T1:00:00Z"`), field: "send_at", notInGo: true},
		{
			name: "a comma before the parts", field: "send_at", notInGo: true,
			body: with(`"send_at":"2027-01-31T01:00:00,5Z"`),
		},
		{name: "small letters in a time", body: with(`"send_at":"2020-01-31t01:00:00z"`)},
		{name: "no offset", body: with(`"send_at":"2027-01-31T01:00:00"`), field: "send_at"},
		{name: "an offset of a day", body: with(`"send_at":"2020-01-31T01:00:00+24:00"`), field: "send_at"},
		{name: "an offset of 16 hours", body: with(`"send_at":"2020-01-31T01:00:00+16:00"`), field: "send_at"},
		{name: "another millennium", body: with(`"send_at":"1999-12-31T23:59:59Z"`), field: "send_at"},
		{name: "in 91 days", body: with(`"send_at":"` + at(91*24*time.Hour) + `"`), field: "send_at"},
		{name: "an end in the past", body: with(`"expires_at":"` + at(-time.Hour) + `"`), field: "expires_at"},
		{
			name: "an end before the beginning", field: "expires_at",
			body: with(`"send_at":"` + at(2*time.Hour) + `","expires_at":"` + at(time.Hour) + `"`),
		},
		{name: "a long collapse key", body: with(`"collapse_key":"` + x(65) + `"`), field: "collapse_key"},
		{name: "a control in the collapse key", body: with(`"collapse_key":"a\u007f"`), field: "collapse_key"},
		{name: "a long key", body: with(`"idempotency_key":"` + x(256) + `"`), field: "idempotency_key", notInGo: true},
		{name: "a long target", body: `{"user_id":"ada","to":"HOOK?` + x(4096) + `"}`, field: "to"},
		{name: "a line break in the target", body: `{"user_id":"ada","to":"HOOK\r\nX: y"}`, field: "to"},
		{name: "a list as data", body: with(`"data":[1]`), field: "data"},
		{name: "a text as data", body: with(`"data":"{}"`), field: "data"},
		{name: "an empty text as data", body: with(`"data":""`), field: "data"},
		{name: "data that is too deep", body: with(`"data":` + nested(64)), field: "data"},
		{name: "a number twice in data", body: with(`"data":{"a":1,"a":2}`), field: "data.a", unseen: true},
		{name: "a long body", body: with(`"body":"` + x(262_145) + `"`), field: "body"},
		{
			name: "a long title and body", field: "body",
			body: with(`"title":"` + x(200_000) + `","body":"` + x(62_145) + `"`),
		},
		{name: "U+0000 in the title", body: with(`"title":"a\u0000"`), field: "title", garbled: true},
		{name: "a list as title", body: with(`"title":["a"]`), field: "title"},
		{name: "a field twice", body: with(`"title":"a","title":"b"`), field: "title", unseen: true, notInGo: true},
		{name: "an unknown field", body: with(`"colour":"red"`), field: "colour"},
		{name: "a field in capitals", body: with(`"Title":"red"`), field: "Title", notInGo: true},
		{name: "another channel's format", body: with(`"fcm":{"android":{}}`), field: "fcm"},

		{name: "an unknown category", body: with(`"category":"chatt"`), field: "category", later: true},
		{
			name: "an unknown channel", field: "channel", later: true,
			body: `{"user_id":"ada","channel":"pigeon","to":"roof"}`,
		},
		{
			name: "a channel without settings", field: "channel", later: true,
			body: `{"user_id":"ada","channel":"fcm","to":"t"}`,
		},
		{name: "no URL", body: `{"user_id":"ada","to":"gopher://x"}`, field: "to", later: true},
		{name: "a format that its channel has not", body: with(`"log":{"level":"warn"}`), field: "log", later: true},
		{
			name: "content that is too long for its channel", field: "body", sized: true,
			body: `{"user_id":"ada","channel":"fcm","to":"t","body":"` + x(5000) + `"}`,
		},
		{
			name: "a target that is not public", field: "to", later: true,
			body: `{"user_id":"ada","to":"http://10.1.2.3/"}`,
		},
	}
}
