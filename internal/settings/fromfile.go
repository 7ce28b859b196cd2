package settings

import (
	"context"
	"strings"
	"unicode"

	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/signing"
)

// credentialFile begins a credential that is the path of a file with it.
const credentialFile = "file:"

// pathsIn are the files that values name.
func pathsIn(values ...string) []string {
	var paths []string
	for _, value := range values {
		if path, ok := strings.CutPrefix(strings.TrimSpace(value), credentialFile); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// readCredential is [ReadCredential] for a flag with an environment variable.
func readCredential(flag string, value *string) error { return ReadCredential(flagName(flag), value) }

// ReadCredential replaces file:PATH by what is in the file. The setting is what a refusal names.
func ReadCredential(setting string, value *string) error {
	path, ok := strings.CutPrefix(strings.TrimSpace(*value), credentialFile)
	if !ok {
		return nil
	}
	text, err := secret.ReadFile(path)
	if err != nil {
		return &UsageError{Setting: setting, Message: err.Error()}
	}
	if *value = strings.TrimSpace(text); *value == "" {
		return &UsageError{Setting: setting, Message: "names an empty file"}
	}
	return nil
}

// splitEntries reads the entries of a list out of a file: between them are commas, blanks or new lines.
func splitEntries(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// FromFile is a setting whose value may stand in files, and is read again when they change.
type FromFile[T any] struct {
	setting string
	files   secret.Files
	read    func() (T, error)
}

// fromFile makes a FromFile of a setting, with its values as they were set.
func fromFile[T any](setting string, read func() (T, error), values ...string) FromFile[T] {
	f := FromFile[T]{setting: setting, read: read}
	if paths := pathsIn(values...); len(paths) > 0 {
		f.files = secret.Look(paths...)
	}
	return f
}

// Source has each new value applied. It has no files where the setting has none, or stays as it is for another reason.
func (f FromFile[T]) Source(apply func(context.Context, T) error) secret.Source {
	return secret.Source{Name: f.setting, Files: f.files, Renew: func(ctx context.Context) error {
		value, err := f.read()
		if err != nil {
			return err
		}
		return apply(ctx, value)
	}}
}

// Renewed are the settings outside of the channels that are read again when their files change.
type Renewed struct {
	Redis     FromFile[*Redis]
	Database  FromFile[string]
	APITokens FromFile[[]string]
	OpsToken  FromFile[[]string]
	// UnsubscribeKey has the keys of [Resolved.Keys].
	UnsubscribeKey FromFile[[]string]
	// EventsSecret has the keys of [Events.Keys].
	EventsSecret FromFile[signing.Keys]
}

// String shows nothing: what it holds are secrets.
func (Renewed) String() string { return "" }
