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

// values on either side of every limit, and of every kind of character.
var validations = []validation{
	{"only what is required", func(*notification.Notification) {}, nil},

	{"id empty", func(n *notification.Notification) { n.ID = "" }, []string{"id: must have 1 to 64 characters"}},
	{"id of 1", func(n *notification.Notification) { n.ID = "x" }, nil},
	{"id of 64", func(n *notification.Notification) { n.ID = strings.Repeat("x", 64) }, nil},
	{"id of 65", func(n *notification.Notification) { n.ID = strings.Repeat("x", 65) }, []string{"id: must have 1 to 64 characters"}},

	{"user empty", func(n *notification.Notification) { n.UserID = "" }, []string{"user_id: is required"}},
	{"user of 1 byte", func(n *notification.Notification) { n.UserID = "u" }, nil},
	{"user of 256 bytes", func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) }, nil},
	{"user of 257 bytes", func(n *notification.Notification) { n.UserID = strings.Repeat("é", 128) + "x" }, []string{"user_id: may have at most 256 bytes, has 257"}},
	{"user with spaces and braces", func(n *notification.Notification) { n.UserID = " {a}:b " }, nil},
	{"user with newline", func(n *notification.Notification) { n.UserID = "a\nb" }, []string{"user_id: must not hold control characters"}},
	{"user with NUL", func(n *notification.Notification) { n.UserID = "a\x00" }, []string{"user_id: must not hold control characters"}},
	{"user with DEL", func(n *notification.Notification) { n.UserID = "a\x7f" }, []string{"user_id: must not hold control characters"}},
	{"user with C1 control", func(n *notification.Notification) { n.UserID = "a\u0085" }, []string{"user_id: must not hold control characters"}},
	{"user with last control before space", func(n *notification.Notification) { n.UserID = "a\x1f" }, []string{"user_id: must not hold control characters"}},
	{"user not UTF-8", func(n *notification.Notification) { n.UserID = "a\xff" }, []string{"user_id: must be valid UTF-8"}},

	{"category empty", func(n *notification.Notification) { n.Category = "" }, []string{"category: is required"}},
	{"channel empty", func(n *notification.Notification) { n.Channel = "" }, []string{"channel: is required"}},

	{"target absent", func(n *notification.Notification) { n.To = "" }, nil},
	{"target of 4096 bytes", func(n *notification.Notification) { n.To = strings.Repeat("t", 4096) }, nil},
	{"target of 4097 bytes", func(n *notification.Notification) { n.To = strings.Repeat("t", 4097) }, []string{"to: may have at most 4096 bytes, has 4097"}},
	{"target with a header smuggled in", func(n *notification.Notification) { n.To = "a@b.example\r\nBcc: c@d.example" }, []string{"to: must not hold control characters"}},
	{"target not UTF-8", func(n *notification.Notification) { n.To = "\xc3\x28" }, []string{"to: must be valid UTF-8"}},

	{"priority forgotten", func(n *notification.Notification) { n.Priority = 0 }, []string{"priority: must be critical, high, normal or low"}},
	{"priority first", func(n *notification.Notification) { n.Priority = 1 }, nil},
	{"priority last", func(n *notification.Notification) { n.Priority = 4 }, nil},
	{"priority after last", func(n *notification.Notification) { n.Priority = 5 }, []string{"priority: must be critical, high, normal or low"}},

	{"text of several lines", func(n *notification.Notification) { n.Title, n.Body = "a\tb", "one\ntwo" }, nil},
	{"title not UTF-8", func(n *notification.Notification) { n.Title = "\xff" }, []string{"title: must be valid UTF-8"}},
	{"body not UTF-8", func(n *notification.Notification) { n.Body = "half \xe2\x82" }, []string{"body: must be valid UTF-8"}},

	{"data absent", func(n *notification.Notification) { n.Data = nil }, nil},
	{"data empty object", func(n *notification.Notification) { n.Data = json.RawMessage(" {} ") }, nil},
	{"data nested", func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":[1,{"b":null}]}`) }, nil},
	{"data null", func(n *notification.Notification) { n.Data = json.RawMessage(`null`) }, []string{"data: must be a JSON object"}},
	{"data list", func(n *notification.Notification) { n.Data = json.RawMessage(`[{}]`) }, []string{"data: must be a JSON object"}},
	{"data text", func(n *notification.Notification) { n.Data = json.RawMessage(`"{}"`) }, []string{"data: must be a JSON object"}},
	{"data number", func(n *notification.Notification) { n.Data = json.RawMessage(`7`) }, []string{"data: must be a JSON object"}},
	{"data blank", func(n *notification.Notification) { n.Data = json.RawMessage("  ") }, []string{"data: must be a JSON object"}},
	{"data cut off", func(n *notification.Notification) { n.Data = json.RawMessage(`{"a":1`) }, []string{"data: must be a JSON object"}},
	{"data twice", func(n *notification.Notification) { n.Data = json.RawMessage(`{}{}`) }, []string{"data: must be a JSON object"}},
	{"data not UTF-8", func(n *notification.Notification) { n.Data = json.RawMessage("{\"a\":\"\xff\"}") }, []string{"data: must be valid UTF-8"}},

	{"push content at the limit", func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 96), strings.Repeat("b", 2000), object(2000)
	}, nil},
	{"push content over the limit", func(n *notification.Notification) {
		n.Channel, n.Title, n.Body, n.Data = "apns", strings.Repeat("t", 97), strings.Repeat("b", 2000), object(2000)
	}, []string{"body: title, body and data together may have at most 4096 bytes on channel apns, have 4097"}},
	{"webhook content at the limit", func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_144)
	}, nil},
	{"webhook content over the limit", func(n *notification.Notification) {
		n.Title, n.Body, n.Data = strings.Repeat("t", 100_000), strings.Repeat("b", 100_000), object(62_145)
	}, []string{"body: title, body and data together may have at most 262144 bytes on channel webhook, have 262145"}},

	{"to be sent in the past", func(n *notification.Notification) { n.SendAt = now.Add(-time.Hour) }, nil},
	{"to be sent in 90 days", func(n *notification.Notification) { n.SendAt = now.Add(2160 * time.Hour) }, nil},
	{"to be sent later than in 90 days", func(n *notification.Notification) { n.SendAt = now.Add(2160*time.Hour + 1) }, []string{"send_at: may lie at most 90 days ahead"}},
	{"expires now", func(n *notification.Notification) { n.ExpiresAt = now }, []string{"expires_at: has passed: it would expire before it can be sent"}},
	{"expires just after now", func(n *notification.Notification) { n.ExpiresAt = now.Add(1) }, nil},
	{"expires when it is to be sent", func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour)
	}, []string{"expires_at: must be later than send_at: it would expire before it can be sent"}},
	{"expires just after it is to be sent", func(n *notification.Notification) {
		n.SendAt, n.ExpiresAt = now.Add(time.Hour), now.Add(time.Hour+1)
	}, nil},
	{"expires in another zone", func(n *notification.Notification) {
		n.ExpiresAt = now.Add(1).In(time.FixedZone("far east", 14*60*60))
	}, nil},

	{"collapse key of 64 bytes", func(n *notification.Notification) { n.CollapseKey = strings.Repeat("k", 64) }, nil},
	{"collapse key of 65 bytes", func(n *notification.Notification) { n.CollapseKey = strings.Repeat("k", 65) }, []string{"collapse_key: may have at most 64 bytes, has 65"}},
	{"collapse key with control", func(n *notification.Notification) { n.CollapseKey = "a\x00b" }, []string{"collapse_key: must not hold control characters"}},
	{"collapse key not UTF-8", func(n *notification.Notification) { n.CollapseKey = "\x80" }, []string{"collapse_key: must be valid UTF-8"}},

	{"everything wrong at once", func(n *notification.Notification) {
		*n = notification.Notification{
			To: "\n", Title: "\xff", Body: "\xff" + strings.Repeat("b", 5000), Data: json.RawMessage(`[]`),
			SendAt: now.Add(3000 * time.Hour), ExpiresAt: now.Add(-1), CollapseKey: "\n",
		}
	}, []string{
		"id: must have 1 to 64 characters",
		"user_id: is required",
		"category: is required",
		"channel: is required",
		"to: must not hold control characters",
		"priority: must be critical, high, normal or low",
		"title: must be valid UTF-8",
		"body: must be valid UTF-8",
		"data: must be a JSON object",
		"body: title, body and data together may have at most 4096 bytes on channel , have 5004",
		"send_at: may lie at most 90 days ahead",
		"expires_at: has passed: it would expire before it can be sent",
		"collapse_key: must not hold control characters",
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
		want := []string{"id: may hold only A-Z a-z 0-9 . _ : -"}
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
		"a\tb":                   "user_id: must not hold control characters",
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
	a, b, c := &notification.FieldError{Field: "a", Message: "is odd"}, &notification.FieldError{Field: "b"}, &notification.FieldError{Field: "c"}
	other := errors.New("the disk is full")
	for name, test := range map[string]struct {
		err  error
		want []*notification.FieldError
	}{
		"nil":                 {nil, nil},
		"none among others":   {fmt.Errorf("accept: %w", errors.Join(other, other)), nil},
		"one alone":           {a, []*notification.FieldError{a}},
		"one wrapped":         {fmt.Errorf("line 3: %w", fmt.Errorf("refused: %w", a)), []*notification.FieldError{a}},
		"joined, in order":    {errors.Join(c, other, a, b), []*notification.FieldError{c, a, b}},
		"joined in joined":    {errors.Join(errors.Join(a, errors.Join(b)), c), []*notification.FieldError{a, b, c}},
		"several in one text": {fmt.Errorf("%w, and %w", b, errors.Join(a, c)), []*notification.FieldError{b, a, c}},
	} {
		if diff := cmp.Diff(test.want, notification.FieldErrors(test.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got, want := a.Error(), "a: is odd"; got != want {
		t.Errorf("the error reads %q, want %q", got, want)
	}
}

// mostOn is how long contents may be on some channels, as who calls Validate has to know.
func mostOn(channel notification.Channel) int {
	if channel == "webhook" || channel == "log" || channel == "email" {
		return 262_144
	}
	return notification.MaxContentBytes
}
