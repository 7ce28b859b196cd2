package notification_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// faultsOf lists the fields at which Validate finds faults.
func faultsOf(err error) []string {
	var texts []string
	for _, fault := range notification.FieldErrors(err) {
		texts = append(texts, fault.Field)
	}
	return texts
}

type validation struct {
	name string
	set  func(*notification.Notification)
	want []string // the faulty fields; none: accepted
}

// validations have values on either side of every limit, and of every kind of character.
var validations = []validation{
	{name: "only what is required", set: func(*notification.Notification) {}},

	{name: "id empty", set: func(n *notification.Notification) { n.ID = "" }, want: []string{"id"}},
	{name: "id of 1", set: func(n *notification.Notification) { n.ID = "x" }},
	{name: "id of 64", set: func(n *notification.Notification) { n.ID = strings.Repeat("x", 64) }},
	{
		name: "id of 65", set: func(n *notification.Notification) { n.ID = strings.Repeat("x", 65) },
		want: []string{"id"},
	},

	{name: "user empty", set: func(n *notification.Notification) { n.UserID = "" }, want: []string{"user_id"}},
	{name: "user of 1 byte", set: func(n *notification.Notification) { n.UserID = "u" }},
	{name: "user of 256 bytes", set: func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) }},
	{
		name: "user of 257 bytes",
		set:  func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) + "x" },
		want: []string{"user_id"},
	},
	{name: "user with spaces and braces", set: func(n *notification.Notification) { n.UserID = " {a}:b " }},
	{
		name: "user with newline", set: func(n *notification.Notification) { n.UserID = "a\nb" },
		want: []string{"user_id"},
	},
	{
		name: "user with NUL", set: func(n *notification.Notification) { n.UserID = "a\x00" },
		want: []string{"user_id"},
	},
	{
		name: "user with DEL", set: func(n *notification.Notification) { n.UserID = "a\x7f" },
		want: []string{"user_id"},
	},
	{
		name: "user with C1 control", set: func(n *notification.Notification) { n.UserID = "a\u0085" },
		want: []string{"user_id"},
	},
	{
		name: "user with last control before space", set: func(n *notification.Notification) { n.UserID = "a\x1f" },
		want: []string{"user_id"},
	},
	{
		name: "user not UTF-8", set: func(n *notification.Notification) { n.UserID = "a\xff" },
		want: []string{"user_id"},
	},

	{name: "category empty", set: func(n *notification.Notification) { n.Category = "" }, want: []string{"category"}},
	{name: "channel empty", set: func(n *notification.Notification) { n.Channel = "" }, want: []string{"channel"}},

	{name: "target absent", set: func(n *notification.Notification) { n.To = "" }},
	{name: "target of 4096 bytes", set: func(n *notification.Notification) { n.To = strings.Repeat("t", 4096) }},
	{
		name: "target of 4097 bytes", set: func(n *notification.Notification) { n.To = strings.Repeat("t", 4097) },
		want: []string{"to"},
	},
	{
		name: "target with a header smuggled in",
		set:  func(n *notification.Notification) { n.To = "a@b.example\r\nBcc: c@d.example" },
		want: []string{"to"},
	},
	{name: "target not UTF-8", set: func(n *notification.Notification) { n.To = "\xc3\x28" }, want: []string{"to"}},

	{
		name: "priority forgotten", set: func(n *notification.Notification) { n.Priority = 0 },
		want: []string{"priority"},
	},
	{name: "priority first", set: func(n *notification.Notification) { n.Priority = 1 }},
	{name: "priority last", set: func(n *notification.Notification) { n.Priority = 4 }},
	{
		name: "priority after last", set: func(n *notification.Notification) { n.Priority = 5 },
		want: []string{"priority"},
	},

	{name: "text of several lines", set: func(n *notification.Notification) { n.Title, n.Body = "a\tb", "one\ntwo" }},
	{name: "title not UTF-8", set: func(n *notification.Notification) { n.Title = "\xff" }, want: []string{"title"}},
	{
		name: "body not UTF-8", set: func(n *notification.Notification) { n.Body = "half \xe2\x82" },
		want: []string{"body"},
	},

	{name: "data absent", set: func(n *notification.Notification) { n.Data = nil }},
	{name: "data empty object", set: func(n *notification.Notification) { n.Data = json.RawMessage(" {} ") }},
	{name: "data nested", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":[1,{"b":null}]}`) }},
	{
		name: "data null", set: func(n *notification.Notification) { n.Data = json.RawMessage(`null`) },
		want: []string{"data"},
	},
	{
		name: "data list", set: func(n *notification.Notification) { n.Data = json.RawMessage(`[{}]`) },
		want: []string{"data"},
	},
	{
		name: "data text", set: func(n *notification.Notification) { n.Data = json.RawMessage(`"{}"`) },
		want: []string{"data"},
	},
	{
		name: "data number", set: func(n *notification.Notification) { n.Data = json.RawMessage(`7`) },
		want: []string{"data"},
	},
	{
		name: "data blank", set: func(n *notification.Notification) { n.Data = json.RawMessage("  ") },
		want: []string{"data"},
	},
	{
		name: "data cut off", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":1`) },
		want: []string{"data"},
	},
	{
		name: "data twice", set: func(n *notification.Notification) { n.Data = json.RawMessage(`{}{}`) },
		want: []string{"data"},
	},
	{
		name: "data not UTF-8",
		set:  func(n *notification.Notification) { n.Data = json.RawMessage("{\"a\":\"\xff\"}") },
		want: []string{"data"},
	},

	{name: "push content at the limit", set: func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 96), strings.Repeat("b", 2000), object(2000)
	}},
	{name: "push content over the limit", set: func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 97), strings.Repeat("b", 2000), object(2000)
	}, want: []string{"body"}},
	{name: "webhook content at the limit", set: func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_144)
	}},
	{name: "webhook content over the limit", set: func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_145)
	}, want: []string{
		"body",
	}},

	{name: "to be sent in the past", set: func(n *notification.Notification) { n.SendAt = now.Add(-time.Hour) }},
	{name: "to be sent in 90 days", set: func(n *notification.Notification) { n.SendAt = now.Add(2160 * time.Hour) }},
	{
		name: "to be sent later than in 90 days",
		set:  func(n *notification.Notification) { n.SendAt = now.Add(2160*time.Hour + 1) },
		want: []string{"send_at"},
	},
	{
		name: "expires now", set: func(n *notification.Notification) { n.ExpiresAt = now },
		want: []string{"expires_at"},
	},
	{name: "expires just after now", set: func(n *notification.Notification) { n.ExpiresAt = now.Add(1) }},
	{name: "expires when it is to be sent", set: func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour)
	}, want: []string{"expires_at"}},
	{name: "expires just after it is to be sent", set: func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour+1)
	}},
	{name: "expires in another zone", set: func(n *notification.Notification) {
		n.ExpiresAt = now.Add(1).In(time.FixedZone("far east", 14*60*60))
	}},

	{
		name: "collapse key of 64 bytes",
		set: func(n *notification.Notification) {
			n.CollapseKey, n.GroupKey = strings.Repeat("k", 64), strings.Repeat("g", 64)
		},
	},
	{
		name: "keys of 65 bytes",
		set: func(n *notification.Notification) {
			n.CollapseKey, n.GroupKey = strings.Repeat("k", 65), strings.Repeat("g", 65)
		},
		want: []string{"collapse_key", "group_key"},
	},
	{
		name: "collapse key with control", set: func(n *notification.Notification) { n.CollapseKey = "a\x00b" },
		want: []string{"collapse_key"},
	},
	{
		name: "collapse key not UTF-8", set: func(n *notification.Notification) { n.CollapseKey = "\x80" },
		want: []string{"collapse_key"},
	},

	{name: "everything wrong at once", set: func(n *notification.Notification) {
		*n = notification.Notification{
			To: "\n", Title: "\xff", Body: "\xff" + strings.Repeat("b", 5000), Data: json.RawMessage(`[]`),
			SendAt: now.Add(3000 * time.Hour), ExpiresAt: now.Add(-1), CollapseKey: "\n",
		}
	}, want: []string{
		"id",
		"user_id",
		"category",
		"channel",
		"to",
		"priority",
		"title",
		"body",
		"data",
		"body",
		"send_at",
		"expires_at",
		"collapse_key",
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
		want := []string{"id"}
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
	for user, ok := range map[string]bool{
		"u-1": true, strings.Repeat("u", 256): true, "": false, strings.Repeat("u", 257): false, "a\tb": false,
		"\xff": false,
	} {
		err := notification.CheckUserID(user)
		if fault := faultsOf(err); (err == nil) != ok || !ok && !slices.Equal(fault, []string{"user_id"}) {
			t.Errorf("user %q: %v", user, err)
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
