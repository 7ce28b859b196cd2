package email

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"unicode"

	gomail "github.com/wneessen/go-mail"
)

const (
	// maxHeaders is how many headers of its own an e-mail may have, maxHeaderName and maxHeader how long each may be,
	// in bytes: a line of mail has at most 998.
	maxHeaders, maxHeaderName, maxHeader = 50, 64, 500
	// maxWord is how long a word of a subject may be: as an encoded word at most (RFC 2047). Lines are broken between
	// words.
	maxWord = 75
)

// ownHeaders are the headers that pacer or mail servers set; a name that ends in - is the beginning of several.
var ownHeaders = []string{
	"arc-", "authentication-results", "auto-submitted", "bcc", "cc", "content-", "date", "delivered-to",
	"dkim-signature", "envelope-to", "expires", "from", "list-unsubscribe", "list-unsubscribe-post", "message-id",
	"mime-", "received", "received-", "reply-to", "resent-", "return-path", "sender", "subject", "to", "x-original-to",
}

// addHeaders adds the headers that a producer sets.
func addHeaders(message *gomail.Msg, headers map[string]string) error {
	if len(headers) == 0 {
		return nil
	}
	if len(headers) > maxHeaders {
		return fmt.Errorf("headers: there may be at most %d, not %d", maxHeaders, len(headers))
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if err := checkHeader(name, headers[name]); err != nil {
			return err
		}
		if seen[strings.ToLower(name)] {
			return fmt.Errorf("headers: %s is given twice, in upper and lower case", name)
		}
		seen[strings.ToLower(name)] = true
		message.SetGenHeader(gomail.Header(name), line(headers[name]))
	}
	return nil
}

// checkHeader refuses a header that pacer sets, or that can't be written.
func checkHeader(name, value string) error {
	if name == "" || len(name) > maxHeaderName || strings.ContainsFunc(name, func(r rune) bool {
		return r != '-' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return fmt.Errorf("headers: a name has 1 to %d letters, digits and dashes", maxHeaderName)
	}
	for _, own := range ownHeaders {
		lower := strings.ToLower(name)
		if lower == own || strings.HasSuffix(own, "-") && strings.HasPrefix(lower, own) {
			return fmt.Errorf("headers: %s is set by pacer or by mail servers, not by a notification", name)
		}
	}
	switch {
	case len(value) > maxHeader:
		return fmt.Errorf("headers: %s may have at most %d bytes, has %d", name, maxHeader, len(value))
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("headers: " + name + " must not hold control characters or line breaks")
	case line(value) == "":
		return errors.New("headers: " + name + " is empty")
	}
	return nil
}

// encodeSubject writes a subject as words that fit into lines, and that a reader turns into exactly this text.
func encodeSubject(text string) string {
	odd := strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
	for word := range strings.SplitSeq(text, " ") { // a word without letters is a blank that a reader may drop
		odd = odd || word == "" || len(word) > maxWord || strings.Contains(word, "=?")
	}
	if text == "" || !odd {
		return text
	}
	// The library encodes only what holds something odd, so it gets a NUL in front, which is taken out again.
	return strings.Replace(mime.QEncoding.Encode("utf-8", "\x00"+text), "=00", "", 1)
}
