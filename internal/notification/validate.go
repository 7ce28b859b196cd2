package notification

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of the contract.
const (
	MaxIDBytes          = 64
	MaxUserIDBytes      = 256
	MaxCollapseKeyBytes = 64
	MaxGroupKeyBytes    = 64
	// MaxContentBytes is how long title, body and data together may be, unless a channel allows more.
	MaxContentBytes = 4096
	// MaxOverrideBytes bounds content in a channel's own format. The channel knows the provider's own limit.
	MaxOverrideBytes  = 256 << 10
	MaxTargetBytes    = 4096
	MaxSendAhead      = 90 * 24 * time.Hour
	MaxIdempotencyKey = 255
)

// FieldError says which field of a notification is wrong, and what would be right.
type FieldError struct {
	Field   string
	Message string
}

// Error reads "user_id: is required".
func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// FieldErrors collects every FieldError joined in err, in order.
func FieldErrors(err error) []*FieldError {
	var all []*FieldError
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // walks the tree itself, node by node
		case nil:
		case *FieldError:
			all = append(all, e)
		case interface{ Unwrap() []error }:
			for _, inner := range e.Unwrap() {
				walk(inner)
			}
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		}
	}
	walk(err)
	return all
}

// Validate checks every field against the limits of the contract, as of now, and returns all faults joined, each a
// [*FieldError]. Title, body and data together may have at most maxContent bytes. Category and channel are only checked
// for presence: the policy and the settings say which exist.
func (n *Notification) Validate(now time.Time, maxContent int) error {
	return errors.Join(
		CheckID(n.ID),
		CheckUserID(n.UserID),
		required("category", n.Category),
		required("channel", string(n.Channel)),
		checkText("to", n.To, MaxTargetBytes),
		checkPriority(n.Priority),
		n.CheckContent(maxContent),
		n.checkTimes(now),
		checkText("collapse_key", n.CollapseKey, MaxCollapseKeyBytes),
		checkText("group_key", n.GroupKey, MaxGroupKeyBytes),
	)
}

// CheckGroupKey checks a group key that is not empty.
func CheckGroupKey(key string) error {
	return cmp.Or(required("group_key", key), checkText("group_key", key, MaxGroupKeyBytes))
}

// CheckID checks the id of a notification, a device or an endpoint.
func CheckID(id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return &FieldError{"id", fmt.Sprintf("must have 1 to %d characters, has %d", MaxIDBytes, len(id))}
	}
	for _, r := range id {
		if !isIDRune(r) {
			return &FieldError{"id", fmt.Sprintf("may hold only A-Z a-z 0-9 . _ : - and is %q", id)}
		}
	}
	return checkPath("id", id)
}

// checkPath refuses the ids that can't be a segment of a path, not even percent-encoded: clients take . and .. for
// folders, and net/http takes / for the end of the path.
func checkPath(field, id string) error {
	if id == "." || id == ".." || id == "/" {
		return &FieldError{field, fmt.Sprintf("must not be %s, which no URL can hold", id)}
	}
	return nil
}

// isIDRune reports whether an id may hold a character.
func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:-", r)
}

// CheckUserID checks the id of a user.
func CheckUserID(user string) error {
	if user == "" {
		return &FieldError{"user_id", "is required"}
	}
	return cmp.Or(checkText("user_id", user, MaxUserIDBytes), checkPath("user_id", user))
}

// required returns an error for an empty field.
func required(field, value string) error {
	if value == "" {
		return &FieldError{field, "is required"}
	}
	return nil
}

// checkText returns an error unless a field is a line of at most that many bytes.
func checkText(field, value string, maxBytes int) error {
	if len(value) > maxBytes {
		return &FieldError{field, fmt.Sprintf("may have at most %d bytes, has %d", maxBytes, len(value))}
	}
	if !utf8.ValidString(value) {
		return &FieldError{field, "must be valid UTF-8"}
	}
	if at := strings.IndexFunc(value, unicode.IsControl); at >= 0 {
		r, _ := utf8.DecodeRuneInString(value[at:])
		return &FieldError{field, fmt.Sprintf("must not hold control characters, holds %U at byte %d", r, at+1)}
	}
	return nil
}

// checkPriority returns an error for a value that is not a priority.
func checkPriority(p Priority) error {
	if p < PriorityCritical || p > PriorityLow {
		return &FieldError{"priority", fmt.Sprintf("must be critical, high, normal or low, is number %d", p)}
	}
	return nil
}

// CheckContent returns an error that names each part of the content that is not valid. most is how long title, body and
// data together may be, in bytes.
func (n *Notification) CheckContent(most int) error {
	var faults []error
	for _, text := range []struct{ field, value string }{{"title", n.Title}, {"body", n.Body}} {
		if !utf8.ValidString(text.value) {
			faults = append(faults, &FieldError{text.field, "must be valid UTF-8"})
		}
		if strings.ContainsRune(text.value, 0) {
			faults = append(faults, &FieldError{text.field, "must not hold the character U+0000"})
		}
	}
	switch {
	case len(n.Data) == 0:
	case !utf8.Valid(n.Data): // json.Valid lets any byte pass inside a string
		faults = append(faults, &FieldError{"data", "must be valid UTF-8"})
	case !isObject(n.Data):
		faults = append(faults, &FieldError{"data", notObject + kindOf(n.Data)})
	}
	if len(n.Override) > 0 && (!utf8.Valid(n.Override) || !isObject(n.Override)) {
		faults = append(faults, &FieldError{string(n.Channel), notObject + kindOf(n.Override)})
	}
	if len(n.Override) > MaxOverrideBytes {
		faults = append(faults, &FieldError{
			string(n.Channel),
			fmt.Sprintf("may have at most %d bytes, has %d", MaxOverrideBytes, len(n.Override)),
		})
	}
	if size := len(n.Title) + len(n.Body) + len(n.Data); size > most {
		faults = append(faults, &FieldError{"body", fmt.Sprintf(
			"title, body and data together may have at most %d bytes on channel %s, have %d", most, n.Channel, size)})
	}
	return errors.Join(faults...)
}

func (n *Notification) checkTimes(now time.Time) error {
	var faults []error
	if n.SendAt.After(now.Add(MaxSendAhead)) {
		faults = append(faults, &FieldError{"send_at", fmt.Sprintf("may lie at most %d days ahead, is %s",
			int(MaxSendAhead/(24*time.Hour)), clock(n.SendAt))})
	}
	if !n.ExpiresAt.IsZero() {
		switch {
		case !n.ExpiresAt.After(now):
			faults = append(faults, &FieldError{
				"expires_at", fmt.Sprintf("%s has passed: it would expire before it can be sent", clock(n.ExpiresAt)),
			})
		case !n.ExpiresAt.After(n.SendAt):
			faults = append(faults, &FieldError{"expires_at", fmt.Sprintf(
				"must be later than send_at: it is %s, and send_at is %s",
				clock(n.ExpiresAt), clock(n.SendAt))})
		}
	}
	return errors.Join(faults...)
}

// notObject begins what is said of a value that is no JSON object.
const notObject = `must be a JSON object, such as {"order":17}, is `

// isObject reports whether a text is a JSON object.
func isObject(text json.RawMessage) bool { return json.Valid(text) && bytes.TrimSpace(text)[0] == '{' }

// kindOf names what a JSON text is, without its content.
func kindOf(text json.RawMessage) string {
	if !json.Valid(text) {
		return "no JSON"
	}
	switch bytes.TrimSpace(text)[0] {
	case '{':
		return "an object with invalid UTF-8"
	case '[':
		return "an array"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// clock writes a time as producers do.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
