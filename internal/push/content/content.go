// Package content turns notifications into the providers' messages. It has what all channels do alike: overrides and
// limits of size.
package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Merge lays an override over a message as RFC 7396 (JSON Merge Patch) says: objects are merged member by member, null
// removes a member, anything else replaces it. An empty override changes nothing.
func Merge(message map[string]any, override json.RawMessage) error {
	if len(override) == 0 {
		return nil
	}
	patch, err := Object(override)
	if err != nil {
		return err
	}
	merge(message, patch)
	return nil
}

// Object reads a JSON object. Numbers stay as they are written.
func Object(text json.RawMessage) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil || object == nil {
		return nil, errors.New("must be a JSON object") // the cause quotes what it read
	}
	return object, nil
}

func merge(target, patch map[string]any) {
	for name, value := range patch {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isObject:
			existing := objectOf(target[name])
			merge(existing, inner)
			target[name] = existing
		default:
			target[name] = value
		}
	}
}

// objectOf is the object that a member of a message is, also where it stands there as its text; an empty one for
// anything else.
func objectOf(member any) map[string]any {
	object, _ := member.(map[string]any)
	if text, isText := member.(json.RawMessage); isText {
		object, _ = Object(text)
	}
	if object == nil {
		object = map[string]any{}
	}
	return object
}

// CheckCase refuses members whose names differ from one of these in nothing but case: a server that ignores the case
// would take them for it, and checks of the exact name would not have seen them.
func CheckCase(message map[string]any, names ...string) error {
	for _, member := range slices.Sorted(maps.Keys(message)) {
		for _, name := range names {
			if member != name && strings.EqualFold(member, name) {
				return fmt.Errorf("%q must be written %s: servers may take one for the other", member, name)
			}
		}
	}
	return nil
}

// SizeError says that the provider would refuse a message for its length.
type SizeError struct {
	Provider    string
	Bytes, Most int
}

// Error says how long the message is and may be.
func (e *SizeError) Error() string {
	return fmt.Sprintf("is a message of %d bytes, and %s takes at most %d", e.Bytes, e.Provider, e.Most)
}

// Encode writes a message as JSON and refuses one that is longer than the provider takes.
func Encode(provider string, message any, most int) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false) // there are no 5 bytes to spare for each of < > &
	if err := encoder.Encode(message); err != nil {
		return nil, errors.New("can't be written as JSON") // the cause quotes the data
	}
	encoded := bytes.TrimRight(buffer.Bytes(), "\n")
	return encoded, Limit(provider, len(encoded), most)
}

// Limit refuses a message of size bytes when the provider takes at most most.
func Limit(provider string, size, most int) error {
	if size > most {
		return &SizeError{provider, size, most}
	}
	return nil
}

// CollapseID tells a provider which messages are the same: a later one replaces an earlier one. It is made from the
// collapse key and the category. Without a collapse key it is the notification's id, so a repeat replaces itself. It
// has at most 64 characters of A-Z a-z 0-9 and ._:-.
func CollapseID(n *notification.Notification) string {
	if n.CollapseKey == "" {
		return n.ID
	}
	return Digest(n.Category + "\x00" + n.CollapseKey)
}

// Digest makes 32 characters of A-Z a-z 0-9 - _ that stand for a text.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
