package notification_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// What a notification may hold, said a second time by other means.
var (
	idPattern   = regexp.MustCompile(`\A[A-Za-z0-9._:-]{1,64}\z`)
	linePattern = regexp.MustCompile(`\A[^\x00-\x1f\x{7f}-\x{9f}]*\z`)
)

func isLine(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && linePattern.MatchString(s)
}

func isObject(data json.RawMessage) bool {
	var fields map[string]json.RawMessage
	return len(data) == 0 || utf8.Valid(data) && json.Unmarshal(data, &fields) == nil && fields != nil
}

// faultyFields is which fields the contract refuses; it shares no code with Validate.
func faultyFields(n *notification.Notification) []string {
	limit := 262_144
	switch n.Channel {
	case "fcm", "apns", "webpush":
		limit = 4096
	case "webhook", "email", "log":
	default:
		limit = 4096
	}
	var fields []string
	for field, fine := range map[string]bool{
		"id":           idPattern.MatchString(n.ID),
		"user_id":      n.UserID != "" && isLine(n.UserID, 256),
		"category":     n.Category != "",
		"channel":      n.Channel != "",
		"to":           isLine(n.To, 4096),
		"priority":     n.Priority >= 1 && n.Priority <= 4,
		"title":        utf8.ValidString(n.Title),
		"body":         utf8.ValidString(n.Body) && len(n.Title+n.Body)+len(n.Data) <= limit,
		"data":         isObject(n.Data),
		"send_at":      n.SendAt.Sub(now) <= 90*24*time.Hour,
		"expires_at":   n.ExpiresAt.IsZero() || now.Before(n.ExpiresAt) && n.SendAt.Before(n.ExpiresAt),
		"collapse_key": isLine(n.CollapseKey, 64),
	} {
		if !fine {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return fields
}

// FuzzValidate compares Validate with that second opinion.
func FuzzValidate(f *testing.F) {
	const day = int64(24 * time.Hour)
	f.Add("n-1", "u-1", "chat", "webhook", "https://a.example/", "Hi", "there", []byte(`{"a":1}`), uint8(3), int64(0),
		int64(0), "")
	f.Add("", "", "", "", "", "", "", []byte(nil), uint8(0), 91*day, int64(-1), "\n")
	f.Add("a b", "\xff", "c", "apns", "\x00", "\xff", strings.Repeat("b", 5000), []byte(" [] "), uint8(5), 90*day,
		90*day, strings.Repeat("k", 65))
	f.Add("é", strings.Repeat("u", 257), "c", "log", strings.Repeat("t", 4097), "", "", []byte("{\"a\":\"\xff\"}"),
		uint8(1), -day, day, "k")
	f.Add(strings.Repeat("x", 65), "u\u0085", "c", "pigeon", "", strings.Repeat("t", 4097), "", []byte("null"),
		uint8(4), day, day+1, "")
	f.Fuzz(func(t *testing.T, id, user, category, channel, to, title, body string, data []byte, priority uint8,
		sendIn, expireIn int64, collapse string,
	) {
		n := &notification.Notification{
			ID: id, UserID: user, Category: category, Channel: notification.Channel(channel),
			To: to, Title: title, Body: body, Data: data,
			Priority: notification.Priority(priority), CollapseKey: collapse,
		}
		// 0 stands for absent; a Duration's 292 years are what a time may lie away.
		if sendIn != 0 {
			n.SendAt = now.Add(time.Duration(sendIn))
		}
		if expireIn != 0 {
			n.ExpiresAt = now.Add(time.Duration(expireIn))
		}
		err := n.Validate(now, mostOn(n.Channel))
		var fields []string
		for _, fault := range notification.FieldErrors(err) {
			if fault.Message == "" || !utf8.ValidString(fault.Error()) {
				t.Errorf("the fault of %s reads %q", fault.Field, fault)
			}
			fields = append(fields, fault.Field)
		}
		slices.Sort(fields)
		if diff := cmp.Diff(faultyFields(n), slices.Compact(fields)); diff != "" {
			t.Errorf("refused fields differ (-contract +Validate):\n%s\nerror: %v", diff, err)
		}
		if (err == nil) != (len(fields) == 0) {
			t.Errorf("error is %v with these faulty fields: %v", err, fields)
		}
	})
}
