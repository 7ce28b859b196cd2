package push

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// MaxReply is how much of a provider's reply is kept, in bytes.
	MaxReply = 500
	// ReplyRead is how much of it has to be read for that: a secret that begins in the part that is kept is masked
	// whole, so it is looked for beyond that part.
	ReplyRead = 4 << 10
	// patternsRead is how much of it the patterns look at.
	patternsRead = 3 * MaxReply
	// shortestPart is how long a part of a target must be to be masked by itself.
	shortestPart = 8
	// mask stands for a secret.
	mask = "***"
)

// Reply makes of a provider's reply to a notification what may be kept and shown: its beginning, without control
// characters, without the notification's content and without secrets. Masked are the target and the given secrets, with
// the parts of those that are URLs, since an address may be all that protects a target; and everything that looks like
// a credential.
func Reply(text []byte, n *notification.Notification, secrets ...string) string {
	reply := strings.ToValidUTF8(string(text[:min(len(text), ReplyRead)]), "")
	var known []string
	if n != nil {
		known, secrets = contentOf(n), append(secrets, n.To)
	}
	for _, secret := range secrets {
		known = append(known, partsOf(secret)...)
	}
	reply = maskPatterns(cut(maskKnown(printable(reply), known), patternsRead))
	if len(reply) > MaxReply {
		reply = cut(reply, MaxReply-len("…")) + "…"
	}
	return reply
}

// printable makes one line of a text.
func printable(text string) string {
	return strings.Join(strings.Fields(strings.Map(visible, text)), " ")
}

// visible makes a blank of each space. Characters that steer a terminal, or the order in which a text is read, are
// dropped: they become -1.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// cut shortens a text to at most n bytes, between two characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// partsOf lists what a reply must not show of a secret: all of it, and of a URL its credentials, its values and the
// longer parts of its path.
func partsOf(secret string) []string {
	parts := []string{secret}
	u, err := url.Parse(secret)
	if err != nil || u.Host == "" {
		return parts
	}
	password, _ := u.User.Password()
	parts = append(parts, u.User.Username(), password, u.RawQuery, u.Fragment)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if path := strings.Trim(u.Path, "/"); len(path) >= shortestPart {
		parts = append(parts, path)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if len(part) >= shortestPart {
			parts = append(parts, part)
		}
	}
	return parts
}

// contentOf lists the texts of a notification's content, but for those that are so short that to mask them would hide
// what the reply says.
func contentOf(n *notification.Notification) []string {
	texts := []string{n.Title, n.Body}
	for _, object := range []json.RawMessage{n.Data, n.Override} {
		decoder := json.NewDecoder(bytes.NewReader(object))
		for token, err := decoder.Token(); err == nil; token, err = decoder.Token() {
			if text, ok := token.(string); ok {
				texts = append(texts, text)
			}
		}
	}
	if n.Digest != nil {
		for _, item := range n.Digest.Items {
			texts = append(texts, contentOf(item)...)
		}
	}
	return slices.DeleteFunc(texts, func(text string) bool { return len(text) < shortestPart })
}

// What looks like a credential: those that say so by a name before them, and those that do by their form.
var (
	named = regexp.MustCompile(`(?i)([\w.-]*(?:authorization|token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key|` +
		`signature|credential|cookie|session[-_]?id)[\w.-]*\\?["']?\s*[:=]\s*\\?)` +
		`((?:(?:bearer|basic|digest|vapid)\s+)?(?:"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&}\]"']+))`)
	formed = regexp.MustCompile(`whsec_[\w+/=-]+` + // a webhook secret
		`|eyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]*)?` + // a JSON web token
		`|(?i:\b(?:bearer|basic|vapid))\s+[\w.~+/=-]*[\d+/=_~-][\w.~+/=-]*` + // the value of an Authorization header
		`|[A-Za-z0-9_+/=-]{40,}|\b[0-9a-fA-F]{32,}\b`) // a device token, a key
	inURL = regexp.MustCompile(`://[^/\s@"']+@`)
	query = regexp.MustCompile(`(https?://[^\s"'<>?]+)\?[^\s"'<>]*`)
)

// plain are words that say what is wrong with a token instead of telling it.
var plain = regexp.MustCompile(`(?i)^["']?(?:expired|invalid|missing|required|null|none|true|false|unknown|revoked|` +
	`malformed|mismatch|not|is|was|the|a|an|no|"")\b`)

// maskPatterns masks what looks like a credential.
func maskPatterns(reply string) string {
	if strings.Contains(reply, "://") {
		reply = query.ReplaceAllString(inURL.ReplaceAllString(reply, "://"+mask+"@"), "$1?"+mask)
	}
	if strings.ContainsAny(reply, ":=") {
		reply = named.ReplaceAllStringFunc(reply, func(found string) string {
			parts := named.FindStringSubmatch(found)
			if plain.MatchString(parts[2]) {
				return found
			}
			return parts[1] + mask
		})
	}
	return formed.ReplaceAllString(reply, mask)
}
