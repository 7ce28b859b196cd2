package messages_test

import (
	"strings"
	"testing"
	"time"
)

// twice hands over a notification, and again with something else in the place of a text.
func (d *fleet) twice(body, text, other string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		d.post(body)(t)
		return d.post(strings.Replace(body, text, other, 1))(t)
	}
}

// fieldRows are refusals of a notification, as the API words them. Every other way in uses the same words.
func fieldRows(d *fleet) []row {
	tomorrow := time.Now().UTC().Add(24 * time.Hour).Truncate(time.Second)
	return []row{
		{
			name: "no user", provoke: d.post(`{"title":"x"}`),
			want: "user_id: is required",
		},
		{
			name: "a number as user", provoke: d.post(`{"user_id":5}`),
			want: "user_id: must be a string, is a number",
		},
		{
			name: "a control character", provoke: d.post(`{"user_id":"a\u0007b"}`),
			want: "user_id: must not hold control characters, holds U+0007 at byte 2",
		},
		{
			name: "a blank in an id", provoke: d.post(`{"user_id":"ada","channel":"log","id":"order 17"}`),
			want: `id: may hold only A-Z a-z 0-9 . _ : - and is "order 17"`,
		},
		{
			name: "dots as id", provoke: d.post(`{"user_id":"ada","channel":"log","id":".."}`),
			want: "id: must not be .., which no URL can hold",
		},
		{
			name: "a long id", provoke: d.post(`{"user_id":"ada","id":"` + strings.Repeat("x", 65) + `"}`),
			want: "id: must have 1 to 64 characters, has 65",
		},
		{
			name: "a long user", provoke: d.post(`{"user_id":"` + strings.Repeat("x", 257) + `"}`),
			want: "user_id: may have at most 256 bytes, has 257",
		},
		{
			name:    "a category that is nearly one",
			provoke: d.post(`{"user_id":"ada","channel":"log","category":"chatt"}`),
			want: `category: "chatt" is not named in the policy; it names chat, default, security (did you ` +
				`mean chat?)`,
		},
		{
			name: "a category that is none", provoke: d.post(`{"user_id":"ada","channel":"log","category":"orders"}`),
			want: `category: "orders" is not named in the policy; it names chat, default, security`,
		},
		{
			name: "an unknown channel", provoke: d.post(`{"user_id":"ada","channel":"webhok"}`),
			want: `channel: "webhok" is not a configured channel; configured are log, webhook (did you mean webhook?)`,
		},
		{
			name: "a channel without settings", provoke: d.post(`{"user_id":"ada","channel":"fcm","to":"token"}`),
			want: `channel: "fcm" is not a configured channel; configured are log, webhook`,
		},
		{
			name: "an unknown priority", provoke: d.post(`{"user_id":"ada","channel":"log","priority":"hgih"}`),
			want: `priority: must be critical, high, normal or low, is "hgih" (did you mean high?)`,
		},
		{
			name: "a word as time", provoke: d.post(`{"user_id":"ada","channel":"log","send_at":"tomorrow"}`),
			want: `send_at: must be an RFC 3339 time, such as 2026-01-02T15:04:05Z, is "tomorrow"`,
		},
		{
			name:    "too far ahead",
			provoke: d.post(`{"user_id":"ada","channel":"log","send_at":"2999-01-01T00:00:00Z"}`),
			want:    "send_at: may lie at most 90 days ahead, is 2999-01-01T00:00:00Z",
		},
		{
			name:    "expired before",
			provoke: d.post(`{"user_id":"ada","channel":"log","expires_at":"2020-01-01T00:00:00Z"}`),
			want:    "expires_at: 2020-01-01T00:00:00Z has passed: it would expire before it can be sent",
		},
		{
			name: "an end before the beginning",
			provoke: d.post(`{"user_id":"ada","channel":"log","send_at":"` + tomorrow.Add(time.Hour).Format(time.RFC3339) +
				`","expires_at":"` + tomorrow.Format(time.RFC3339) + `"}`),
			want: "expires_at: must be later than send_at: it is " + tomorrow.Format(time.RFC3339) + ", and send_at is " +
				tomorrow.Add(time.Hour).Format(time.RFC3339),
		},
		{
			name: "a list as data", provoke: d.post(`{"user_id":"ada","channel":"log","data":[1]}`),
			want: `data: must be a JSON object, such as {"order":17}, is an array`,
		},
		{
			name: "a misspelt field", provoke: d.post(`{"user_id":"ada","channel":"log","categry":"chat"}`),
			want: "categry: is not a field of a notification (did you mean category?); its fields are apns, body, " +
				"category, channel, collapse_key, data, email, expires_at, fcm, id, idempotency_key, max_wait, ntfy, priority, " +
				"send_at, slack, sms, teams, template, title, to, user_id, webpush",
		},
		{
			name: "an unknown field", provoke: d.post(`{"user_id":"ada","channel":"log","colour":"red"}`),
			want: "colour: is not a field of a notification; its fields are apns, body, category, channel, " +
				"collapse_key, data, email, expires_at, fcm, id, idempotency_key, max_wait, ntfy, priority, send_at, slack, " +
				"sms, teams, template, title, to, user_id, webpush",
		},
		{
			name: "a field twice", provoke: d.post(`{"user_id":"ada","channel":"log","title":"a","title":"b"}`),
			want: "title: is given twice",
		},
		{
			name: "a member twice", provoke: d.post(`{"user_id":"ada","channel":"log","data":{"a":1,"a":2}}`),
			want: "data.a: is given twice",
		},
		{
			name: "deep data",
			provoke: d.post(
				`{"user_id":"ada","data":` + strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64) + "}"),
			want: "data: may be nested at most 64 levels deep",
		},
		{
			name: "another channel's format", provoke: d.post(`{"user_id":"ada","to":"http://127.0.0.1/","fcm":{}}`),
			want: "fcm: is for notifications of the channel fcm, this one's is webhook",
		},
		{
			name:    "a long body",
			provoke: d.post(`{"user_id":"ada","channel":"log","body":"` + strings.Repeat("x", 262_145) + `"}`),
			want:    "body: title, body and data together may have at most 262144 bytes on channel log, have 262145",
		},
		{
			name:    "a character that no text has",
			provoke: d.post(`{"user_id":"ada","channel":"log","title":"a\u0000"}`),
			want:    "title: must not hold the character U+0000",
		},
		{
			name:    "a long collapse key",
			provoke: d.post(`{"user_id":"ada","channel":"log","collapse_key":"` + strings.Repeat("k", 65) + `"}`),
			want:    "collapse_key: may have at most 64 bytes, has 65",
		},
		{
			name: "no target and no device", provoke: d.post(`{"user_id":"ada"}`),
			want: "to: is required: the user has no active device on the channel webhook",
		},
		{
			name: "a target that is no URL", provoke: d.post(`{"user_id":"ada","to":"gopher://x"}`),
			want: "to: must begin with http:// or https://",
		},
		{
			name: "a target that is not public", provoke: d.post(`{"user_id":"ada","to":"http://10.0.0.1/hook"}`),
			want: "to: address 10.0.0.1 is not public; to call it, put its network into --webhook-allow " +
				"(PACER_WEBHOOK_ALLOW)",
		},
		{
			name: "a target with a password", provoke: d.post(`{"user_id":"ada","to":"http://u:p@example.com/"}`),
			want: "to: must not hold credentials before its host",
		},
		{
			name: "a target with a bad port", provoke: d.post(`{"user_id":"ada","to":"http://example.com:99999/"}`),
			want: "to: must have a port from 1 to 65535",
		},
		{
			name: "an unknown template", provoke: d.post(`{"user_id":"ada","channel":"log","template":{"name":"ho"}}`),
			want: `template.name: there is no template "ho"; there are hi`,
		},
		{
			name:    "a template's value missing",
			provoke: d.post(`{"user_id":"ada","channel":"log","template":{"name":"hi"}}`),
			want:    `template.data: lacks "name"`,
		},
		{
			name: "a template and a title",
			provoke: d.post(
				`{"user_id":"ada","channel":"log","title":"x","template":{"name":"hi","data":{"name":"x"}}}`),
			want: "template: makes title and body, so these must be empty",
		},
		{
			name: "a template without name", provoke: d.post(`{"user_id":"ada","channel":"log","template":{}}`),
			want: "template.name: is required: the template's name",
		},
		{
			name: "a text as template", provoke: d.post(`{"user_id":"ada","channel":"log","template":"hi"}`),
			want: "template: must be an object with name (text), locale (text) and data (an object)",
		},
		{
			name:    "an id again with other content",
			provoke: d.twice(`{"id":"order-17","user_id":"ada","channel":"log","title":"one"}`, "one", "two"),
			want: `id: "order-17" was accepted before with other content: title differs; repeat it unchanged, or use ` +
				`another id`,
		},
		{
			name:    "an id again for another user",
			provoke: d.twice(`{"id":"order-18","user_id":"ada","channel":"log","title":"one"}`, "ada", "bob"),
			want: `id: "order-18" was accepted before with other content: user_id differs; repeat it unchanged, ` +
				`or use ` +
				`another id`,
		},
		{
			name:    "a key again with other content",
			provoke: d.twice(`{"idempotency_key":"k","user_id":"ada","channel":"log","title":"one"}`, "one", "two"),
			want: "idempotency_key: was used for another notification; repeat that one unchanged, or use " +
				"another key",
		},
		{
			name:    "a long key",
			provoke: d.post(`{"user_id":"ada","channel":"log","idempotency_key":"` + strings.Repeat("k", 256) + `"}`),
			want:    "idempotency_key: may have at most 255 characters, has 256",
		},
		{
			name: "a key of many bytes", provoke: d.post(`{"user_id":"ada","channel":"log","idempotency_key":"ü"}`),
			want: "idempotency_key: may hold only printable ASCII characters",
		},
	}
}
