package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/notification"
)

// encode makes the JSON form of a notification. It refuses, with an [*Error], what JSON can't carry: text that is no
// UTF-8, which would arrive as another text, and raw JSON that is none.
func encode(n Notification) ([]byte, error) {
	var faults []error
	for _, text := range []struct{ field, value string }{
		{"id", n.ID},
		{"user_id", n.UserID},
		{"category", n.Category},
		{"channel", n.Channel},
		{"to", n.To},
		{"title", n.Title},
		{"body", n.Body},
		{"priority", n.Priority},
		{"collapse_key", n.CollapseKey},
		{"group_key", n.GroupKey},
		{"idempotency_key", n.IdempotencyKey},
	} {
		if !utf8.ValidString(text.value) {
			faults = append(faults, &notification.FieldError{Field: text.field, Message: "must be valid UTF-8"})
		}
	}
	raws := ownFormats(n)
	raws["data"], raws["template.data"] = n.Data, n.template().Data
	for _, field := range slices.Sorted(maps.Keys(raws)) {
		if raw := raws[field]; len(raw) > 0 && !(json.Valid(raw) && utf8.Valid(raw)) {
			faults = append(faults, &notification.FieldError{
				Field: field, Message: `must be a JSON object, such as {"order":17}, is no JSON`,
			})
		}
	}
	for _, moment := range []struct {
		field string
		value time.Time
	}{{"send_at", n.SendAt}, {"expires_at", n.ExpiresAt}} {
		if _, err := moment.value.MarshalText(); err != nil {
			faults = append(faults, &notification.FieldError{
				Field: moment.field, Message: "must be a time that RFC 3339 can write: " + err.Error(),
			})
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fieldsRefused(err)
	}
	body, err := json.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("encode the notification: %w", err)
	}
	return underWholeName(body, notification.Channel(n.Channel))
}

// ownFormats are the contents in the formats of the channels' providers, by the kind of channel: all fields of raw JSON
// but data.
func ownFormats(n Notification) map[string]json.RawMessage {
	formats := map[string]json.RawMessage{}
	for field, value := range reflect.ValueOf(n).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if raw, ok := reflect.TypeAssert[json.RawMessage](value); ok && name != "data" {
			formats[name] = raw
		}
	}
	return formats
}

// underWholeName has content in the format of a channel's kind stand under the whole name of a sender, such as
// fcm:shop.
func underWholeName(body []byte, channel notification.Channel) ([]byte, error) {
	if channel.Kind() == channel {
		return body, nil
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("encode the notification: %w", err)
	}
	own, given := members[string(channel.Kind())]
	if !given {
		return body, nil
	}
	delete(members, string(channel.Kind()))
	members[string(channel)] = own
	return json.Marshal(members)
}

// template is the notification's template, or an empty one.
func (n *Notification) template() Template {
	if n.Template == nil {
		return Template{}
	}
	return *n.Template
}

// unprocessable is the refusal of a notification, as the API words it.
func unprocessable(detail string) *Error {
	return &Error{
		Status: http.StatusUnprocessableEntity, Title: http.StatusText(http.StatusUnprocessableEntity), Detail: detail,
	}
}

// fieldsRefused makes an [*Error] of everything that is wrong with fields.
func fieldsRefused(err error) error {
	var details []string
	var fields []FieldError
	for _, fault := range notification.FieldErrors(err) {
		details = append(details, fault.Error())
		fields = append(fields, FieldError{Field: fault.Field, Message: fault.Message})
	}
	if len(fields) == 0 {
		return err
	}
	e := unprocessable(strings.Join(details, "; "))
	e.Fields = fields
	return e
}
