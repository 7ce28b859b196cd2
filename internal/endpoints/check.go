package endpoints

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// The bounds of what an endpoint may have.
const (
	maxDescription = 256
	maxHeaders     = 20
	maxHeaderBytes = 4096
)

// checkDescription refuses one that is too long, or has control characters.
func checkDescription(text string) error {
	switch {
	case len(text) > maxDescription:
		return fault("description", "may have at most %d bytes, has %d", maxDescription, len(text))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return fault("description", "must be UTF-8 without control characters")
	}
	return nil
}

func fault(field, format string, args ...any) error {
	return &notification.FieldError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// ownHeaders are those that pacer or the connection sets.
var ownHeaders = map[string]bool{
	"Host": true, "Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true,
	"Upgrade": true, "Expect": true, "Http2-Settings": true,
}

// ownPrefixes begin the names of further ones.
var ownPrefixes = []string{"Content-", "Webhook-", "Pacer-", "Proxy-"}

// canonical checks headers and returns them by their canonical names. No error shows a value: it may be a credential.
func canonical(headers map[string]string) (map[string]string, error) {
	if len(headers) > maxHeaders {
		return nil, fault("headers", "there may be at most %d, not %d", maxHeaders, len(headers))
	}
	var faults []error
	size, all := 0, make(map[string]string, len(headers))
	for name, value := range headers {
		key := http.CanonicalHeaderKey(name)
		size += len(name) + len(value)
		_, twice := all[key]
		all[key] = value
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			faults = append(faults, fault("headers", "%s is not a valid header name", nearest.Quote(name)))
		case ownHeaders[key] || hasPrefix(key):
			faults = append(faults, fault("headers", "%s can't be set: pacer or the connection sets it",
				nearest.Quote(key)))
		case twice:
			faults = append(faults, fault("headers", "%s is given twice", nearest.Quote(key)))
		case !httpguts.ValidHeaderFieldValue(value) || strings.TrimSpace(value) != value || notASCII(value):
			faults = append(faults, fault("headers",
				"the value of %s must be ASCII without control characters, and without spaces at its ends",
				nearest.Quote(key)))
		}
	}
	if size > maxHeaderBytes {
		faults = append(faults, fault("headers", "may have at most %d bytes together, have %d", maxHeaderBytes, size))
	}
	return all, errors.Join(faults...)
}

func hasPrefix(key string) bool {
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func notASCII(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > '~' })
}
