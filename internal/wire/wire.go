// Package wire reads the JSON form in which producers hand over notifications. Every way in reads it here: the HTTP
// API, the enqueue command, and package client before it writes into a transaction of the caller's.
//
// It reads strictly: one object in UTF-8, whose fields are known and given once.
package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// Input is a notification as a producer writes it.
type Input struct {
	ID             string          `json:"id,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._:-]+$" doc:"Made by the server when absent. Requests with the same id are one notification."`
	UserID         string          `json:"user_id" minLength:"1" maxLength:"256" doc:"The user whom it is for: any text without control characters but ., .. and /."`
	Category       string          `json:"category,omitempty" default:"default" doc:"Category of the policy."`
	Channel        string          `json:"channel,omitempty" default:"webhook" doc:"The channel that it is sent over."`
	To             string          `json:"to,omitempty" doc:"The target: a URL, device token, subscription or address. Without one, the notification goes to the user's devices on the channel."`
	Title          string          `json:"title,omitempty"`
	Body           string          `json:"body,omitempty"`
	Data           json.RawMessage `json:"data,omitempty" doc:"A JSON object."`
	Priority       string          `json:"priority,omitempty" enum:"critical,high,normal,low" default:"normal"`
	SendAt         string          `json:"send_at,omitempty" format:"date-time" doc:"It is not sent before this time; at most 90 days ahead."`
	ExpiresAt      string          `json:"expires_at,omitempty" format:"date-time" doc:"It is not sent after this time."`
	CollapseKey    string          `json:"collapse_key,omitempty" maxLength:"64" doc:"Replaces a waiting notification with the same user, category and key."`
	GroupKey       string          `json:"group_key,omitempty" maxLength:"64" doc:"What it belongs to, such as an order. What waits of a user can be cancelled by it."`
	Template       json.RawMessage `json:"template,omitempty" doc:"Makes title and body from a template: a JSON object with its name, a locale such as de-AT, and data."`
	MaxWait        string          `json:"max_wait,omitempty" doc:"Refuses it when it could not go within this time, such as 30s, from now or from its send_at. Nothing of it is kept."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"255" doc:"Like the header Idempotency-Key, for a single item of a batch."`
}

// priorityNames are the names that a priority may have, and priorities lists them.
var (
	priorityNames = []string{"critical", "high", "normal", "low"}
	priorities    = "critical, high, normal or low"
)

// MaxBytes bounds the JSON of one notification: the longest content with every character escaped.
const MaxBytes = 2 << 20

// ErrMalformed begins every error about a body that is no JSON.
var ErrMalformed = errors.New("the body is not the JSON of a notification")

// Decode reads one notification. own are the names of the channels that have a format of their own: a notification may
// have an object in that format under its channel's name. What is wrong with a field is a [notification.FieldError];
// what is no JSON object at all, or a longer one than [MaxBytes], is [ErrMalformed].
func Decode(raw []byte, own []string) (intake.Request, error) {
	if len(raw) > MaxBytes {
		return intake.Request{}, fmt.Errorf("%w: it has %d bytes, and may have %d", ErrMalformed, len(raw), MaxBytes)
	}
	raw = TrimMark(raw)
	overrides, err := checkStructure(raw, own)
	if err != nil {
		return intake.Request{}, err
	}
	var in Input
	if err := json.Unmarshal(raw, &in); err != nil {
		return intake.Request{}, typeError(err)
	}
	request, err := in.request()
	if len(overrides) > 0 {
		err = errors.Join(err, override(&request, raw, overrides))
	}
	return request, err
}

// typeError says which field has a value of a type that it can't have, or that there is no such field.
func typeError(err error) error {
	if err == nil {
		return nil
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return &notification.FieldError{Field: shorten(strings.Trim(name, `"`)), Message: "is not a field here"}
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok || wrong.Field == "" {
		return err
	}
	value, _, _ := strings.Cut(wrong.Value, " ") // "number 5" shows what the producer sent
	article := "a "
	if value == "array" || value == "object" {
		article = "an "
	}
	return &notification.FieldError{Field: wrong.Field, Message: fmt.Sprintf("must be %s, is %s%s",
		cmp.Or(kinds[wrong.Type.Kind()], "a whole number"), article, value)}
}

// kinds names what JSON has for a Go type; all others are numbers without a fraction.
var kinds = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "an array", reflect.Map: "an object",
	reflect.Struct: "an object",
}

// override takes the content in the format of the notification's own channel. names are the channels that the
// notification has such content for.
func override(request *intake.Request, raw []byte, names []string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return ErrMalformed
	}
	var faults []error
	for _, name := range names {
		switch text := members[name]; {
		case string(text) == "null":
		case name != string(request.Channel):
			faults = append(faults, &notification.FieldError{
				Field: name, Message: fmt.Sprintf("is for notifications of the channel %s, this one's is %s", name,
					cmp.Or(request.Channel, notification.ChannelWebhook)),
			})
		default:
			request.Override = text
		}
	}
	return errors.Join(faults...)
}

// parseTemplate reads strictly which template is wanted.
func parseTemplate(text json.RawMessage) (*intake.Template, error) {
	var t intake.Template
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return nil, &notification.FieldError{
			Field: "template", Message: "must be an object with name (text), locale (text) and data (an object)",
		}
	}
	if t.Name == "" {
		return nil, &notification.FieldError{Field: "template.name", Message: "is required: the template's name"}
	}
	return &t, nil
}

// request makes the request to intake.
func (in *Input) request() (intake.Request, error) {
	r := intake.Request{
		IdempotencyKey: in.IdempotencyKey,
		Notification: notification.Notification{
			ID: in.ID, UserID: in.UserID, Category: in.Category, Channel: notification.Channel(in.Channel), To: in.To,
			Title: in.Title, Body: in.Body, CollapseKey: in.CollapseKey, GroupKey: in.GroupKey,
		},
	}
	if string(in.Data) != "null" {
		r.Data = in.Data
	}
	var faults []error
	if len(in.Template) > 0 && string(in.Template) != "null" {
		template, err := parseTemplate(in.Template)
		r.Template = template
		faults = append(faults, err)
	}
	var err error
	if r.Priority, err = parsePriority(in.Priority); err != nil {
		faults = append(faults, err)
	}
	if r.SendAt, err = parseTime("send_at", in.SendAt); err != nil {
		faults = append(faults, err)
	}
	if r.ExpiresAt, err = parseTime("expires_at", in.ExpiresAt); err != nil {
		faults = append(faults, err)
	}
	if r.MaxWait, err = parseMaxWait(in.MaxWait); err != nil {
		faults = append(faults, err)
	}
	return r, errors.Join(faults...)
}

// parseMaxWait reads how long a notification may wait. An empty text is any time.
func parseMaxWait(text string) (*time.Duration, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // both are what it says
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return nil, &notification.FieldError{Field: "max_wait", Message: fmt.Sprintf(
			"must be a duration of 0s or more, such as 30s, 10m or 24h, is %s", nearest.Quote(text))}
	}
	return &d, nil
}

// parseTime reads an RFC 3339 time of this millennium. An empty text is no time.
func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := notification.ParseTime(text)
	if err != nil {
		return time.Time{}, &notification.FieldError{Field: field, Message: err.Error()}
	}
	return t, nil
}
