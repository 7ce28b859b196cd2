package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// inputFields are the names that an input may have, exactly as written. The names of channels with a format of their
// own come on top.
var inputFields = []string{
	"id", "user_id", "category", "channel", "to", "title", "body", "data", "priority", "send_at", "expires_at",
	"collapse_key", "idempotency_key", "template", "max_wait",
}

// maxDepth is how deep JSON may be nested.
const maxDepth = 64

// MalformedError says why a text is not one JSON object.
type MalformedError struct{ why string }

// Error says where it ceases to be one, and does not repeat it.
func (e *MalformedError) Error() string { return e.why }

// Walk visits every member of one JSON object in UTF-8, since encoding/json ignores the case of names and takes the
// last of two equal ones. Member is told the path of names to each, which it must not keep, and may refuse it. A member
// that is given twice is a [notification.FieldError]; what is not one object is a [*MalformedError].
func Walk(raw []byte, member func(path []string) error) error {
	if !utf8.Valid(raw) {
		return &MalformedError{"it is not valid UTF-8"}
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	walk := &walker{decoder, member}
	if err := walk.value(nil); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &MalformedError{fmt.Sprintf("there is more text after the object, from byte %d on", decoder.InputOffset()+1)}
	}
	return nil
}

// checkStructure walks through a notification. It returns the fields that are named after channels with a format of
// their own.
func checkStructure(raw []byte, own []string) (overrides []string, err error) {
	err = Walk(raw, func(path []string) error {
		name := path[0]
		switch {
		case len(path) > 1 || slices.Contains(inputFields, name):
			return nil
		case slices.Contains(own, name):
			overrides = append(overrides, name)
			return nil
		}
		return unknownField(name, own)
	})
	if malformed, ok := errors.AsType[*MalformedError](err); ok {
		err = fmt.Errorf("%w: %w", ErrMalformed, malformed)
	}
	return overrides, err
}

// unknownField says that there is no such field, and what there is. The formats of channels are not listed.
func unknownField(name string, own []string) error {
	return &notification.FieldError{Field: shorten(name), Message: fmt.Sprintf(
		"is not a field of a notification%s; its fields are %s, and one named after its channel",
		nearest.Hint(name, append(slices.Clip(inputFields), own...)), nearest.List(inputFields))}
}

// walker visits every value of a JSON text.
type walker struct {
	decoder *json.Decoder
	member  func(path []string) error
}

// token reads on. An error says where the text ceases to be JSON, and does not repeat it.
func (w *walker) token() (json.Token, error) {
	token, err := w.decoder.Token()
	if err == nil {
		return token, nil
	}
	at := w.decoder.InputOffset() + 1
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &MalformedError{fmt.Sprintf("it ends too early, after %d bytes", at-1)}
	}
	return nil, &MalformedError{fmt.Sprintf("it is not valid JSON from byte %d on", at)}
}

// value visits the value at a path of names; the object itself has none.
func (w *walker) value(path []string) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	switch {
	case len(path) == 0 && delim != '{':
		return &MalformedError{`it must be an object, such as {"user_id":"ada"}`}
	case !nested:
		return nil
	case len(path) >= maxDepth:
		return &notification.FieldError{
			Field: path[0], Message: fmt.Sprintf("may be nested at most %d levels deep", maxDepth),
		}
	case delim == '{':
		err = w.object(path)
	default:
		err = w.array(path)
	}
	if err != nil {
		return err
	}
	_, err = w.token() // the closing bracket
	return err
}

func (w *walker) object(path []string) error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := append(slices.Clip(path), name)
		if seen[name] {
			return &notification.FieldError{Field: shorten(strings.Join(at, ".")), Message: "is given twice"}
		}
		seen[name] = true
		if err := w.member(at); err != nil {
			return err
		}
		if err := w.value(at); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) array(path []string) error {
	at := append(slices.Clip(path), "[]")
	for w.decoder.More() {
		if err := w.value(at); err != nil {
			return err
		}
	}
	return nil
}

// shorten cuts what a producer made up, so that it does not fill the response.
func shorten(text string) string {
	if len(text) > 64 {
		return strings.ToValidUTF8(text[:64], "") + "…"
	}
	return text
}
