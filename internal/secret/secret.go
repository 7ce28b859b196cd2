// Package secret holds values that must not show in logs, errors or dumps.
package secret

import "log/slog"

// Secret is a text that prints as <secret>. Empty means that there is none.
type Secret struct{ value string }

// New makes a Secret.
func New(value string) Secret { return Secret{value} }

// Reveal gives the text.
func (s Secret) Reveal() string { return s.value }

// IsZero tells whether there is none.
func (s Secret) IsZero() bool { return s.value == "" }

// String hides the text.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return "<secret>"
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the text from JSON, YAML and their like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
