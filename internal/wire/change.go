package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// MaxChange bounds the JSON of a change, in bytes.
const MaxChange = 4 << 10

// Change is what a notification that waits is to have from now on, as a producer or an operator writes it.
type Change struct {
	SendAt    json.RawMessage `json:"send_at,omitempty" doc:"It is not sent before this time; at most 90 days ahead. Null or a time that has passed: at once."`
	ExpiresAt json.RawMessage `json:"expires_at,omitempty" doc:"It is not sent after this time. Null: it does not expire."`
	Priority  string          `json:"priority,omitempty" enum:"critical,high,normal,low"`
}

// DecodeChange reads a change. What is wrong with a field is a [notification.FieldError].
func DecodeChange(raw []byte) (c notification.Change, err error) {
	var in Change
	raw = TrimMark(raw)
	w := walker{raw: raw, member: func(path []string) error { return checkChangeField(path[0]) }}
	if err = w.walk(); err == nil {
		err = typeError(json.Unmarshal(raw, &in))
	}
	if len(notification.FieldErrors(err)) > 0 {
		return c, err
	}
	if err != nil {
		return c, fmt.Errorf("the body is not a JSON object with send_at, expires_at or priority: %w", err)
	}
	if len(in.SendAt) == 0 && len(in.ExpiresAt) == 0 && in.Priority == "" {
		return c, &notification.FieldError{Field: "priority", Message: "is required, or send_at or expires_at: nothing is to be changed"}
	}
	var sendAt, expiresAt, priority error
	c.SendAt, sendAt = changeTime("send_at", in.SendAt)
	c.ExpiresAt, expiresAt = changeTime("expires_at", in.ExpiresAt)
	c.Priority, priority = parsePriority(in.Priority)
	return c, errors.Join(sendAt, expiresAt, priority)
}

// changeFields are the names that a change may have, exactly as written.
var changeFields = []string{"send_at", "expires_at", "priority"}

func checkChangeField(name string) error {
	if slices.Contains(changeFields, name) {
		return nil
	}
	return &notification.FieldError{Field: shorten(name), Message: fmt.Sprintf("is not a field of a change%s; its fields are %s",
		nearest.Hint(name, changeFields), nearest.List(changeFields))}
}

// changeTime reads a new time: nil where none is given, and the zero time for null.
func changeTime(field string, raw json.RawMessage) (*time.Time, error) {
	var text *string
	switch err := json.Unmarshal(raw, &text); {
	case len(raw) == 0:
		return nil, nil //nolint:nilnil // it stays as it is
	case err != nil, text != nil && *text == "":
		return nil, &notification.FieldError{Field: field, Message: "must be a time, such as 2026-01-02T15:04:05Z, or null"}
	case text == nil:
		return &time.Time{}, nil
	}
	at, err := parseTime(field, *text)
	return &at, err
}

// parsePriority reads a priority. An empty text is none.
func parsePriority(text string) (notification.Priority, error) {
	priority, ok := notification.ParsePriority(text)
	if !ok && text != "" {
		return 0, &notification.FieldError{Field: "priority", Message: fmt.Sprintf(
			"must be %s, is %s%s", priorities, nearest.Quote(text), nearest.Hint(text, priorityNames))}
	}
	return priority, nil
}
