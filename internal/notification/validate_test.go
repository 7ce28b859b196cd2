package notification_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// now is the moment of all validations here.
var now = time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC)

// valid is a notification with only what is required.
func valid() *notification.Notification {
	return &notification.Notification{
		ID: "n-1", UserID: "u-1", Category: "chat", Channel: notification.ChannelWebhook,
		Priority: notification.PriorityNormal,
	}
}

// object is a JSON object of exactly that many bytes.
func object(size int) json.RawMessage {
	return json.RawMessage(`{"k":"` + strings.Repeat("x", size-len(`{"k":""}`)) + `"}`)
}

// faultsOf lists the faults that Validate finds, as texts.
func faultsOf(err error) []string {
	var texts []string
	for _, fault := range notification.FieldErrors(err) {
		texts = append(texts, fault.Error())
	}
	return texts
}

type validation struct {
	name string
	set  func(*notification.Notification)
	want []string // none: accepted
}

// validations have values on either side of every limit, and of every kind of character.
var validations = []validation{
	{name: "only what is required", set: func(*notification.Notification) {}},

	{
		name: "id empty", set: func(n *notification.Notification) { n.ID = "" },
		want: []string{"id: must have 1 to 64 characters, has 0"},
	},
	{name: "id of 1", set: func(n *notification.Notification) { n.ID = "x" }},
	{name: "id of 64", set: func(n *notification.Notification) { n.ID = strings.Repeat("x", 64) }},
	{
		name: "id of 65", set: func(n *notification.Notification) { n.ID = strings.Repeat("x", 65) },
		want: []string{"id: must have 1 to 64 characters, has 65"},
	},

	{
		name: "user empty", set: func(n *notification.Notification) { n.UserID = "" },
		want: []string{"user_id: is required"},
	},
	{name: "user of 1 byte", set: func(n *notification.Notification) { n.UserID = "u" }},
	{name: "user of 256 bytes", set: func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) }},
	{
		name: "user of 257 bytes",
		set:  func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) + "x" },
		want: []string{"user_id: may have at most 256 bytes, has 257"},
	},
	{name: "user with spaces and braces", set: func(n *notification.Notification) { n.UserID = " {a}:b " }},
	{
		name: "user with newline", set: func(n *notification.Notification) { n.UserID = "a\nb" },
		want: []string{"user_id: must not hold control characters, holds U+000A at byte 2"},
	},
	{
		name: "user with NUL", set: func(n *notification.Notification) { n.UserID = "a\x00" },
		want: []string{"user_id: must not hold control characters, holds U+0000 at byte 2"},
	},
	{
		name: "user with DEL", set: func(n *notification.Notification) { n.UserID = "a\x7f" },
		want: []string{"user_id: must not hold control characters, holds U+007F at byte 2"},
	},
	{
		name: "user with C1 control", set: func(n *notification.Notification) { n.UserID = "a\u0085" },
		want: []string{"user_id: must not hold control characters, holds U+0085 at byte 2"},
	},
	{
		name: "user with last control before space", set: func(n *notification.Notification) { n.UserID = "a\x1f" },
		want: []string{"user_id: must not hold control characters, holds U+001F at byte 2"},
	},
	{
		name: "user not UTF-8", set: func(n *notification.Notification) { n.UserID = "a\xff" },
		want: []string{"user_id: must be valid UTF-8"},
	},

	{
		name: "category empty", set: func(n *notification.Notification) { n.Category = "" },
		want: []string{"category: is required"},
	},
	{
		name: "channel empty", set: func(n *notification.Notification) { n.Channel = "" },
		want: []string{"channel: is required"},
	},

	{name: "target absent", set: func(n *notification.Notification) { n.To = "" }},
	{name: "target of 4096 bytes", set: func(n *notification.Notification) { n.To = strings.Repeat("t", 4096) }},
	{
		name: "target of 4097 bytes", set: func(n *notification.Notification) { n.To = strings.Repeat("t", 4097) },
		want: []string{"to: may have at most 4096 bytes, has 4097"},
	},
	{
		name: "target with a header smuggled in",
		set:  func(n *notification.Notification) { n.To = "a@b.example\r\nBcc: c@d.example" },
		want: []string{"to: must not hold control characters, holds U+000D at byte 12"},
	},
	{
		name: "target not UTF-8", set: func(n *notification.Notification) { n.To = "\xc3\x28" },
		want: []string{"to: must be valid UTF-8"},
	},

	{
		name: "priority forgotten", set: func(n *notification.Notification) { n.Priority = 0 },
		want: []string{"priority: must be critical, high, normal or low, is number 0"},
	},
	{name: "priority first", set: func(n *notification.Notification) { n.Priority = 1 }},
	{name: "priority last", set: func(n *notification.Notification) { n.Priority = 4 }},
	{
		name: "priority after last", set: func(n *notification.Notification) { n.Priority = 5 },
		want: []string{"priority: must be critical, high, normal or low, is number 5"},
	},

	{name: "text of several lines", set: func(n *notification.Notification) { n.Title, n.Body = "a\tb", "one\ntwo" }},
	{
		name: "title not UTF-8", set: func(n *notification.Notification) { n.Title = "\xff" },
		want: []string{"title: must be valid UTF-8"},
	},
	{
		name: "body not UTF-8", set: func(n *notification.Notification) { n.Body = "half \xe2\x82" },
		want: []string{"body: must be valid UTF-8"},
	},

	{name: "data absent", set: func(n *notification.Notification) { n.Data = nil }},
	{name: "data empty object", set: func(n *notification.Notification) { n.Data = json.RawMessage(" {} ") }},
	{name: "data nested", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":[1,{"b":null}]}`) }},
	{
		name: "data null", set: func(n *notification.Notification) { n.Data = json.RawMessage(`null`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is null`},
	},
	{
		name: "data list", set: func(n *notification.Notification) { n.Data = json.RawMessage(`[{}]`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is an array`},
	},
	{
		name: "data text", set: func(n *notification.Notification) { n.Data = json.RawMessage(`"{}"`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is a text`},
	},
	{
		name: "data number", set: func(n *notification.Notification) { n.Data = json.RawMessage(`7`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is a number`},
	},
	{
		name: "data blank", set: func(n *notification.Notification) { n.Data = json.RawMessage("  ") },
		want: []string{`data: must be a JSON object, such as {"order":17}, is no JSON`},
	},
	{
		name: "data cut off", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":1`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is no JSON`},
	},
	{
		name: "data twice", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{}{}`) },
		want: []string{`data: must be a JSON object, such as {"order":17}, is no JSON`},
	},
	{
		name: "data not UTF-8",
		set:  func(n *notification.Notification) { n.Data = json.RawMessage("{\"a\":\"\xff\"}") },
		want: []string{"data: must be valid UTF-8"},
	},

	{name: "push content at the limit", set: func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 96), strings.Repeat("b", 2000), object(2000)
	}},
	{name: "push content over the limit", set: func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 97), strings.Repeat("b", 2000), object(2000)
	}, want: []string{"body: title, body and data together may have at most 4096 bytes on channel apns, have 4097"}},
	{name: "webhook content at the limit", set: func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_144)
	}},
	{name: "webhook content over the limit", set: func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_145)
	}, want: []string{
		"body: title, body and data together may have at most 262144 bytes on channel webhook, have 262145",
	}},

	{name: "to be sent in the past", set: func(n *notification.Notification) { n.SendAt = now.Add(-time.Hour) }},
	{name: "to be sent in 90 days", set: func(n *notification.Notification) { n.SendAt = now.Add(2160 * time.Hour) }},
	{
		name: "to be sent later than in 90 days",
		set:  func(n *notification.Notification) { n.SendAt = now.Add(2160*time.Hour + 1) },
		want: []string{"send_at: may lie at most 90 days ahead, is " + now.Add(2160*time.Hour).Format(time.RFC3339)},
	},
	{
		name: "expires now", set: func(n *notification.Notification) { n.ExpiresAt = now },
		want: []string{"expires_at: 2026-03-14T15:09:26Z has passed: it would expire before it can be sent"},
	},
	{name: "expires just after now", set: func(n *notification.Notification) { n.ExpiresAt = now.Add(1) }},
	{name: "expires when it is to be sent", set: func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour)
	}, want: []string{"expires_at: must be later than send_at: it is 2026-03-14T16:09:26Z, and send_at is 2026-03-14T16:09:26Z"}},
	{name: "expires just after it is to be sent", set: func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour+1)
	}},
	{name: "expires in another zone", set: func(n *notification.Notification) {
		n.ExpiresAt = now.Add(1).In(time.FixedZone("far east", 14*60*60))
	}},

	{
		name: "collapse key of 64 bytes",
		set:  func(n *notification.Notification) { n.CollapseKey = strings.Repeat("k", 64) },
	},
	{
		name: "collapse key of 65 bytes",
		set:  func(n *notification.Notification) { n.CollapseKey = strings.Repeat("k", 65) },
		want: []string{"collapse_key: may have at most 64 bytes, has 65"},
	},
	{
		name: "collapse key with control", set: func(n *notification.Notification) { n.CollapseKey = "a\x00b" },
		want: []string{"collapse_key: must not hold control characters, holds U+0000 at byte 2"},
	},
	{
		name: "collapse key not UTF-8", set: func(n *notification.Notification) { n.CollapseKey = "\x80" },
		want: []string{"collapse_key: must be valid UTF-8"},
	},

	{name: "everything wrong at once", set: func(n *notification.Notification) {
		*n = notification.Notification{
			To: "\n", Title: "\xff", Body: "\xff" + strings.Repeat("b", 5000), Data: json.RawMessage(`[]`),
			SendAt: now.Add(3000 * time.Hour), ExpiresAt: now.Add(-1), CollapseKey: "\n",
		}
	}, want: []string{
		"id: must have 1 to 64 characters, has 0",
		"user_id: is required",
		"category: is required",
		"channel: is required",
		"to: must not hold control characters, holds U+000A at byte 1",
		"priority: must be critical, high, normal or low, is number 0",
		"title: must be valid UTF-8",
		"body: must be valid UTF-8",
		`data: must be a JSON object, such as {"order":17}, is an array`,
		"body: title, body and data together may have at most 4096 bytes on channel , have 5004",
		"send_at: may lie at most 90 days ahead, is " + now.Add(3000*time.Hour).Format(time.RFC3339),
		"expires_at: " + now.Add(-1).Format(time.RFC3339) + " has passed: it would expire before it can be sent",
		"collapse_key: must not hold control characters, holds U+000A at byte 1",
	}},
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range validations {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := valid()
			test.set(n)
			before := *n
			err := n.Validate(now, mostOn(n.Channel))
			if diff := cmp.Diff(test.want, faultsOf(err)); diff != "" {
				t.Errorf("faults differ (-want +got):\n%s", diff)
			}
			if (err == nil) != (test.want == nil) {
				t.Errorf("error is %v, want one: %t", err, test.want != nil)
			}
			if diff := cmp.Diff(before, *n); diff != "" {
				t.Errorf("Validate changed the notification (-before +after):\n%s", diff)
			}
		})
	}
}

// Every byte is tried in an id, and some characters that only look allowed.
func TestIDCharacters(t *testing.T) {
	t.Parallel()
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	tried := []string{"é", "А", "٣", "－", "\u200b", "ſ", "K"}
	for b := range 256 {
		tried = append(tried, string([]byte{byte(b)}))
	}
	for _, character := range tried {
		n := valid()
		n.ID = "a" + character + "b"
		want := []string{fmt.Sprintf("id: may hold only A-Z a-z 0-9 . _ : - and is %q", n.ID)}
		if strings.Contains(allowed, character) {
			want = nil
		}
		if diff := cmp.Diff(want, faultsOf(n.Validate(now, mostOn(n.Channel)))); diff != "" {
			t.Errorf("id %q (-want +got):\n%s", n.ID, diff)
		}
	}
}

func TestCheckUserID(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"u-1":                    "",
		strings.Repeat("u", 256): "",
		"":                       "user_id: is required",
		strings.Repeat("u", 257): "user_id: may have at most 256 bytes, has 257",
		"a\tb":                   "user_id: must not hold control characters, holds U+0009 at byte 2",
		"\xff":                   "user_id: must be valid UTF-8",
	} {
		got := ""
		if err := notification.CheckUserID(user); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("user %q: %q, want %q", user, got, want)
		}
	}
}

func TestFieldErrors(t *testing.T) {
	t.Parallel()
	a := &notification.FieldError{Field: "a", Message: "is odd"}
	b, c := &notification.FieldError{Field: "b"}, &notification.FieldError{Field: "c"}
	other := errors.New("the disk is full")
	for name, test := range map[string]struct {
		err  error
		want []*notification.FieldError
	}{
		"nil":               {err: nil},
		"none among others": {err: fmt.Errorf("accept: %w", errors.Join(other, other))},
		"one alone":         {err: a, want: []*notification.FieldError{a}},
		"one wrapped": {
			err:  fmt.Errorf("line 3: %w", fmt.Errorf("refused: %w", a)),
			want: []*notification.FieldError{a},
		},
		"joined, in order": {err: errors.Join(c, other, a, b), want: []*notification.FieldError{c, a, b}},
		"joined in joined": {
			err:  errors.Join(errors.Join(a, errors.Join(b)), c),
			want: []*notification.FieldError{a, b, c},
		},
		"several in one text": {
			err:  fmt.Errorf("%w, and %w", b, errors.Join(a, c)),
			want: []*notification.FieldError{b, a, c},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, notification.FieldErrors(test.err)); diff != "" {
				t.Errorf("faults differ (-want +got):\n%s", diff)
			}
		})
	}
	if got, want := a.Error(), "a: is odd"; got != want {
		t.Errorf("the error reads %q, want %q", got, want)
	}
}

// mostOn is how long contents may be on a channel, which callers of Validate have to know.
func mostOn(channel notification.Channel) int {
	if channel == "webhook" || channel == "log" || channel == "email" {
		return 262_144
	}
	return notification.MaxContentBytes
}
