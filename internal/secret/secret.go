// Package secret holds values that must not show in logs, errors or dumps.
package secret

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what shows instead of a value.
const redacted = "<secret>"

// Secret is a text that prints as <secret>. The zero value is no secret, and prints as nothing. The text is behind a
// pointer: package fmt does not call the methods of unexported fields, but it does not follow pointers in them either.
// Secrets can't be compared with ==, which would compare the pointers.
type Secret struct {
	_     [0]func()
	value *string
}

// New makes a Secret. An empty text makes the zero value.
func New(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == nil }

// String hides the text.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// Format hides the text from every verb of package fmt, also from those that look past String, such as %d.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, s.String()) }

// MarshalText hides the text from YAML and similar formats.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON hides the text from JSON.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
