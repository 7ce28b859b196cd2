package push

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
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
	// A mask may end within a character, and Postgres takes no part of one.
	reply = strings.ToValidUTF8(maskKnown(printable(reply), known), "")
	reply = maskPatterns(cut(reply, patternsRead))
	if len(reply) > MaxReply {
		reply = cut(reply, MaxReply-len("…")) + "…"
	}
	return reply
}

// printable makes one line of a text. Characters that steer a terminal, or the order in which a text is read, are
// dropped.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
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
	return slices.DeleteFunc(texts, func(text string) bool { return len(text) < shortestPart })
}

const (
	// shortestKnown is how long a known secret must be to be masked.
	shortestKnown = 4
	// head is how much of a known text has to be found: a provider may repeat only its beginning.
	head = 16
)

// maskKnown masks texts that are known, also as JSON and URLs write them, and as much of each as the reply repeats.
func maskKnown(reply string, known []string) string {
	var forms []string
	for _, text := range known {
		text = cut(text, ReplyRead)
		if len(text) < shortestKnown {
			continue
		}
		quoted, _ := json.Marshal(text) // a text can always be written
		var plain strings.Builder
		encoder := json.NewEncoder(&plain)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(text)
		unquoted := strings.Trim(strings.TrimSpace(plain.String()), `"`)
		forms = append(forms, printable(text), strings.Trim(string(quoted), `"`), unquoted,
			strings.ReplaceAll(text, "/", `\/`), url.QueryEscape(text), url.PathEscape(text))
		for _, format := range []string{`\u%04x`, `\u%04X`} {
			ascii := inASCII(unquoted, format)
			forms = append(forms, ascii, strings.ReplaceAll(ascii, "/", `\/`))
		}
	}
	hidden := make([]bool, len(reply))
	for _, form := range forms {
		if len(form) >= shortestKnown {
			hide(hidden, reply, form)
		}
	}
	return masked(reply, hidden)
}

// inASCII writes a JSON text as those do who escape all that is not ASCII, each part of UTF-16 in a format.
func inASCII(text, format string) string {
	var ascii []byte
	for _, r := range text {
		if r < utf8.RuneSelf {
			ascii = append(ascii, byte(r))
			continue
		}
		for _, part := range utf16.Encode([]rune{r}) {
			ascii = fmt.Appendf(ascii, format, part)
		}
	}
	return string(ascii)
}

// hide marks the bytes of a reply where a text, or its beginning, stands. All forms of a text are marked before any is
// masked: several may begin alike, and only one goes on as the reply does.
func hide(hidden []bool, reply, form string) {
	for from := 0; ; {
		at := strings.Index(reply[from:], form[:min(head, len(form))])
		if at < 0 {
			return
		}
		at += from
		for from = at; from < len(reply) && from-at < len(form) && reply[from] == form[from-at]; from++ {
			hidden[from] = true
		}
	}
}

// masked writes a mask for each part of a reply that is hidden.
func masked(reply string, hidden []bool) string {
	var text strings.Builder
	for i := range len(reply) {
		switch {
		case !hidden[i]:
			text.WriteByte(reply[i])
		case i == 0 || !hidden[i-1]:
			text.WriteString(mask)
		}
	}
	return text.String()
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
