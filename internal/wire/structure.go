package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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

// checkStructure walks through the JSON, since encoding/json ignores the case of field names and takes the last of two
// equal ones. It returns the fields that are named after channels with a format of their own.
func checkStructure(raw []byte, own []string) (overrides []string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	walk := &walker{decoder: decoder, own: own}
	if err := walk.value(nil); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the object, from byte %d on", ErrMalformed,
			decoder.InputOffset()+1)
	}
	return walk.overrides, nil
}

// walker visits every value of a JSON text.
type walker struct {
	decoder *json.Decoder
	// own are the channels with a format of their own, and overrides those of them that are fields here.
	own, overrides []string
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
		return nil, fmt.Errorf("%w: it ends too early, after %d bytes", ErrMalformed, at-1)
	}
	return nil, fmt.Errorf("%w: it is no JSON from byte %d on", ErrMalformed, at)
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
		return fmt.Errorf("%w: it must be an object, such as {\"user_id\":\"ada\"}", ErrMalformed)
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
		if len(path) == 0 && !w.isField(name) {
			return unknownField(name, append(slices.Clip(inputFields), w.own...))
		}
		if err := w.value(at); err != nil {
			return err
		}
	}
	return nil
}

// unknownField says that there is no such field, and what there is.
func unknownField(name string, fields []string) error {
	return &notification.FieldError{Field: shorten(name), Message: fmt.Sprintf(
		"is not a field of a notification%s; its fields are %s", nearest.Hint(name, fields), nearest.List(fields))}
}

// isField tells whether a notification may have the field, and notes it when it is named after a channel.
func (w *walker) isField(name string) bool {
	if slices.Contains(inputFields, name) {
		return true
	}
	if slices.Contains(w.own, name) {
		w.overrides = append(w.overrides, name)
		return true
	}
	return false
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
