package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// inputFields are the names that an input may have, exactly as written. The names of channels with a format of their
// own come on top.
var inputFields = []string{
	"id", "user_id", "category", "channel", "to", "title", "body", "data", "priority", "send_at", "expires_at",
	"collapse_key", "group_key", "idempotency_key", "template", "max_wait",
}

// maxDepth is how deep JSON may be nested.
const maxDepth = 64

// MalformedError says why a text is not one JSON object.
type MalformedError struct{ why string }

// Error says where it ceases to be one, and does not repeat it.
func (e *MalformedError) Error() string { return e.why }

// Unmarshal reads one JSON object as exactly what it says. What encoding/json would read as another value, or not at
// all, is a [notification.FieldError], as is U+0000, which Postgres can't keep in a text; what is not one object is a
// [*MalformedError].
func Unmarshal(raw []byte, into any) error {
	raw = TrimMark(raw)
	w := walker{raw: raw, member: func([]string) error { return nil }, keptAsText: true}
	if err := w.walk(); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return typeError(decoder.Decode(into))
}

// TrimMark removes the byte order mark with which programs on Windows begin a text in UTF-8.
func TrimMark(raw []byte) []byte { return bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")) }

// checkStructure walks through a notification. It returns the fields that are named after channels with a format of
// their own.
func checkStructure(raw []byte, own []string) (overrides []string, err error) {
	w := walker{raw: raw, member: func(path []string) error {
		name := path[0]
		switch {
		case len(path) > 1 || slices.Contains(inputFields, name):
			return nil
		case slices.Contains(own, name):
			overrides = append(overrides, name)
			return nil
		}
		return unknownField(name, own)
	}}
	err = w.walk()
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

// walker visits every value of one JSON object in UTF-8.
type walker struct {
	raw     []byte
	decoder *json.Decoder
	// member is told the path of names to each member, which it must not keep, and may refuse it.
	member func(path []string) error
	// keptAsText is true where a store keeps the texts as such, and not the JSON.
	keptAsText bool
}

// walk refuses what encoding/json would hide: of two equal names it takes the last, and of each half of a character it
// makes U+FFFD.
func (w *walker) walk() error {
	if bytes.IndexByte(w.raw, 0) >= 0 { // JSON has none, and UTF-16 one beside each ASCII character
		return &MalformedError{"it is not UTF-8 but UTF-16, or binary; save it as UTF-8"}
	}
	if !utf8.Valid(w.raw) {
		return &MalformedError{"it is not valid UTF-8"}
	}
	w.decoder = json.NewDecoder(bytes.NewReader(w.raw))
	w.decoder.UseNumber()
	if err := w.value(nil); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(w.raw[w.decoder.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return &MalformedError{fmt.Sprintf("there is more text after the object, from byte %d on",
			len(w.raw)-len(rest)+1)}
	}
	return nil
}

// token reads on. An error says where the text ceases to be JSON, and does not repeat it.
func (w *walker) token(path []string) (json.Token, error) {
	from := w.decoder.InputOffset()
	token, err := w.decoder.Token()
	if text, isText := token.(string); isText {
		return token, w.checkText(path, text, w.raw[from:w.decoder.InputOffset()])
	}
	if err == nil {
		return token, nil
	}
	at := w.decoder.InputOffset() + 1
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(at, syntax.Offset) // the latter may be that of the byte before
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &MalformedError{fmt.Sprintf("it ends too early, after %d bytes", at-1)}
	}
	return nil, &MalformedError{fmt.Sprintf("it is not valid JSON from byte %d on", at)}
}

// checkText refuses a text, written as raw, that would become another one.
func (w *walker) checkText(path []string, text string, raw []byte) error {
	message := ""
	switch {
	case strings.ContainsRune(text, utf8.RuneError) && hasHalf(raw):
		message = `holds half of a character (a \u escape from D800 to DFFF without its other half)`
	case w.keptAsText && strings.ContainsRune(text, 0):
		message = "must not hold the character U+0000"
	default:
		return nil
	}
	if len(path) == 0 {
		return &MalformedError{"a name in it " + message}
	}
	return &notification.FieldError{Field: shorten(strings.Join(path, ".")), Message: message}
}

// hasHalf reports whether JSON escapes one half of a surrogate pair alone.
func hasHalf(raw []byte) bool {
	unit := func(at int) rune { // of the escape there; 0 without one
		if at+6 > len(raw) || raw[at] != '\\' || raw[at+1] != 'u' {
			return 0
		}
		value, _ := strconv.ParseUint(string(raw[at+2:at+6]), 16, 16) // it is valid JSON
		return rune(value)
	}
	for i := 0; i < len(raw); i++ {
		switch first := unit(i); {
		case raw[i] != '\\':
		case !utf16.IsSurrogate(first):
			i++ // what is escaped may be a backslash
		case utf16.DecodeRune(first, unit(i+6)) == utf8.RuneError:
			return true
		default:
			i += 11
		}
	}
	return false
}

// value visits the value at a path of names; the object itself has none.
func (w *walker) value(path []string) error {
	token, err := w.token(path)
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	switch {
	case len(path) == 0 && delim != '{':
		return &MalformedError{"it must be one JSON object, in { }"}
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
	_, err = w.token(path) // the closing bracket
	return err
}

func (w *walker) object(path []string) error {
	seen := map[string]bool{}
	for w.decoder.More() {
		token, err := w.token(path)
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
