package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// input is a notification as a producer writes it.
type input struct {
	ID             string          `json:"id,omitempty" maxLength:"64" pattern:"^[A-Za-z0-9._:-]+$" doc:"Made by the server when absent. Requests with the same id are one notification."`
	UserID         string          `json:"user_id" minLength:"1" maxLength:"256" doc:"The user whom it is for."`
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
	Template       json.RawMessage `json:"template,omitempty" doc:"Makes title and body from a template: a JSON object with its name, a locale such as de-AT, and data."`
	IdempotencyKey string          `json:"idempotency_key,omitempty" maxLength:"255" doc:"Like the header Idempotency-Key, for a single item of a batch."`
}

// inputFields are the names that an input may have, exactly as written. The names of channels with a format of their
// own come on top.
var inputFields = []string{
	"id", "user_id", "category", "channel", "to", "title", "body", "data", "priority", "send_at", "expires_at",
	"collapse_key", "idempotency_key", "template",
}

// maxDepth is how deep JSON may be nested.
const maxDepth = 64

// errMalformed begins every error about a body that is no JSON.
var errMalformed = errors.New("the body is not the JSON of a notification")

// decode reads one notification strictly: one JSON object in UTF-8, with known fields only, each once, and nothing
// after it.
func (a *api) decode(raw []byte) (intake.Request, error) {
	if !utf8.Valid(raw) {
		return intake.Request{}, fmt.Errorf("%w: it is not valid UTF-8", errMalformed)
	}
	overrides, err := a.checkStructure(raw)
	if err != nil {
		return intake.Request{}, err
	}
	var in input
	if err := json.Unmarshal(raw, &in); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return intake.Request{}, &notification.FieldError{
				Field: wrong.Field, Message: "must be a " + wrong.Type.String() + ", is a " + wrong.Value,
			}
		}
		return intake.Request{}, errMalformed
	}
	request, err := in.request()
	if len(overrides) > 0 {
		err = errors.Join(err, override(&request, raw, overrides))
	}
	return request, err
}

// override takes the content in the format of the notification's own channel. names are the channels that the
// notification has such content for.
func override(request *intake.Request, raw []byte, names []string) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return errMalformed
	}
	var faults []error
	for _, name := range names {
		switch text := members[name]; {
		case string(text) == "null":
		case name != string(request.Channel):
			faults = append(faults, &notification.FieldError{
				Field: name, Message: "is for notifications of the channel " + name,
			})
		default:
			request.Override = text
		}
	}
	return errors.Join(faults...)
}

// checkStructure walks through the JSON, since encoding/json ignores the case of field names and takes the last of two
// equal ones. It returns the fields that are named after channels.
func (a *api) checkStructure(raw []byte) (overrides []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	walk := &walker{decoder: decoder, channels: a.cfg.Channels}
	if err := walk.value(0); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object", errMalformed)
	}
	return walk.overrides, nil
}

// walker visits every value of a JSON text.
type walker struct {
	decoder  *json.Decoder
	channels []Channel
	// overrides are the fields that are named after channels.
	overrides []string
}

func (w *walker) token() (json.Token, error) {
	token, err := w.decoder.Token()
	if err != nil {
		return nil, errMalformed
	}
	return token, nil
}

func (w *walker) value(depth int) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	switch {
	case depth == 0 && delim != '{':
		return fmt.Errorf("%w: it must be an object", errMalformed)
	case !nested:
		return nil
	case depth >= maxDepth:
		return fmt.Errorf("%w: it is nested deeper than %d levels", errMalformed, maxDepth)
	case delim == '{':
		err = w.object(depth)
	default:
		err = w.array(depth)
	}
	if err != nil {
		return err
	}
	_, err = w.token() // the closing bracket
	return err
}

func (w *walker) object(depth int) error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if seen[name] {
			return &notification.FieldError{Field: shorten(name), Message: "is given twice"}
		}
		seen[name] = true
		if depth == 0 && !w.isField(name) {
			return &notification.FieldError{Field: shorten(name), Message: "is not a field of a notification"}
		}
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// isField tells whether a notification may have the field, and notes it when it is named after a channel.
func (w *walker) isField(name string) bool {
	if slices.Contains(inputFields, name) {
		return true
	}
	if slices.ContainsFunc(w.channels, func(c Channel) bool { return string(c.Name) == name && c.OwnFormat != "" }) {
		w.overrides = append(w.overrides, name)
		return true
	}
	return false
}

func (w *walker) array(depth int) error {
	for w.decoder.More() {
		if err := w.value(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// shorten cuts a name that a client made up, so that it does not fill the response.
func shorten(name string) string {
	if len(name) > 64 {
		return strings.ToValidUTF8(name[:64], "") + "…"
	}
	return name
}

// parseTemplate reads strictly which template is wanted.
func parseTemplate(text json.RawMessage) (*intake.Template, error) {
	var t intake.Template
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return nil, &notification.FieldError{Field: "template", Message: "must be an object with name, locale and data"}
	}
	if t.Name == "" {
		return nil, &notification.FieldError{Field: "template.name", Message: "is required"}
	}
	return &t, nil
}

// request makes the request to intake.
func (in *input) request() (intake.Request, error) {
	r := intake.Request{
		IdempotencyKey: in.IdempotencyKey,
		Notification: notification.Notification{
			ID: in.ID, UserID: in.UserID, Category: in.Category, Channel: notification.Channel(in.Channel), To: in.To,
			Title: in.Title, Body: in.Body, CollapseKey: in.CollapseKey,
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
	if in.Priority != "" {
		priority, ok := notification.ParsePriority(in.Priority)
		if !ok {
			faults = append(faults, &notification.FieldError{
				Field: "priority", Message: "must be critical, high, normal or low",
			})
		}
		r.Priority = priority
	}
	var err error
	if r.SendAt, err = parseTime("send_at", in.SendAt); err != nil {
		faults = append(faults, err)
	}
	if r.ExpiresAt, err = parseTime("expires_at", in.ExpiresAt); err != nil {
		faults = append(faults, err)
	}
	return r, errors.Join(faults...)
}

// parseTime reads an RFC 3339 time of this millennium. An empty text is no time.
func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 2000 || t.Year() > 2999 {
		return time.Time{}, &notification.FieldError{
			Field: field, Message: "must be an RFC 3339 time, such as 2026-01-02T15:04:05Z",
		}
	}
	return t, nil
}
