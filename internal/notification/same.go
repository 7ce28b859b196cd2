package notification

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrConflict says that an id belongs to a notification with other content: a [*ConflictError] says what differs.
var ErrConflict = errors.New("the id belongs to a notification with other content")

// ConflictError refuses a notification whose id was accepted before with other content. It is an [ErrConflict].
type ConflictError struct {
	ID string
	// Fields differ from the notification that was accepted, by their names in the API.
	Fields []string
}

// Error names the id and the fields, never their contents.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("id: %q was accepted before with other content: %s; repeat it unchanged, or use another id",
		e.ID, differ(e.Fields))
}

// Is makes it an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// differ reads "title differs" or "title and data differ".
func differ(fields []string) string {
	if len(fields) == 1 {
		return fields[0] + " differs"
	}
	last := len(fields) - 1
	return strings.Join(fields[:last], ", ") + " and " + fields[last] + " differ"
}

// Differences lists the fields in which two notifications with the same id differ, by their names in the API. It
// compares what producers hand over: JSON by its meaning, and times as exactly as every store keeps them.
func (n *Notification) Differences(other *Notification) []string {
	var fields []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"user_id", n.UserID == other.UserID},
		{"category", n.Category == other.Category},
		{"channel", n.Channel == other.Channel},
		{"to", n.To == other.To},
		{"title", n.Title == other.Title},
		{"body", n.Body == other.Body},
		{"data", sameJSON(n.Data, other.Data)},
		{string(n.Channel), n.Channel != other.Channel || sameJSON(n.Override, other.Override)},
		{"priority", n.Priority == other.Priority},
		{"send_at", sameTime(n.SendAt, other.SendAt)},
		{"expires_at", sameTime(n.ExpiresAt, other.ExpiresAt)},
		{"collapse_key", n.CollapseKey == other.CollapseKey},
		{"group_key", n.GroupKey == other.GroupKey},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// sameTime compares to the microsecond. A store may have rounded one of the two.
func sameTime(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= time.Microsecond
}

// sameJSON compares two JSON texts by what they mean; an empty text is none.
func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) {
		return len(a) == len(b)
	}
	x, errX := parseJSON(a)
	y, errY := parseJSON(b)
	return errX == nil && errY == nil && sameValue(x, y)
}

func parseJSON(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}

// sameValue compares two values that parseJSON made.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || decimalOf(a) == decimalOf(b))
	}
	return a == b
}

// decimal is a number of any size: its digits without zeros around them, and the power of ten that they count.
type decimal struct {
	negative bool
	digits   string
	exponent int
}

// decimalOf makes 120, 1.2e2 and 12e01 one decimal, since a database may write a number anew.
func decimalOf(number json.Number) decimal {
	text, negative := strings.CutPrefix(strings.ToLower(string(number)), "-")
	mantissa, power, _ := strings.Cut(text, "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return decimal{}
	}
	exponent := 0
	if power != "" {
		parsed, err := strconv.ParseInt(power, 10, 32)
		if err != nil { // it is beyond every number that a database keeps
			return decimal{negative: negative, digits: text}
		}
		exponent = int(parsed)
	}
	return decimal{
		negative: negative, digits: strings.TrimLeft(trimmed, "0"),
		exponent: exponent - len(fraction) + len(digits) - len(trimmed),
	}
}
