package email

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/mail"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Whatever a title, a name and a header hold, each line of the header is legal, and the title reads back exactly.
// Blanks in a row are one in names and in a producer's headers.
func TestHeadersAreLegalAndReadBack(t *testing.T) {
	t.Parallel()
	encoded := regexp.MustCompile(`=\?\S*`)
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a ]{0,9} {0,200}[a-z=?]{0,600}[a-z]{0,600} ?b? {0,3}`),
		rapid.StringMatching(`(=\?utf-8\?[qb]\?[A-Za-z=_]{0,90}\?= ?){1,3}`),
		rapid.StringOf(rapid.SampledFrom([]rune("a: =?_<>\"ü漢😀\t\x00\u2028\u0085,;"))))
	rapid.Check(t, func(rt *rapid.T) {
		n := &notification.Notification{ID: "n1", Title: strings.Join(strings.FieldsFunc(text.Draw(rt, "title"), isBreak), "")}
		own := text.Filter(func(s string) bool { return checkHeader("X-Own", s) == nil }).Draw(rt, "own")
		n.Override, _ = json.Marshal(map[string]any{"headers": map[string]string{"X-Own": own}}) //nolint:errchkjson // texts
		to, err := parseAddress(fmt.Sprintf("%q <ada@example.com>", text.Draw(rt, "name")))
		if err != nil {
			return
		}
		m, err := message(n, to, to)
		if err != nil {
			rt.Fatal(err)
		}
		var raw bytes.Buffer
		if _, err := m.WriteTo(&raw); err != nil {
			rt.Fatal(err)
		}
		head, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
		field := ""
		for line := range strings.SplitSeq(head, "\r\n") {
			if !strings.HasPrefix(line, " ") {
				field, _, _ = strings.Cut(line, ":")
			}
			words := strings.Join(encoded.FindAllString(line, 1), "")
			if strings.TrimSpace(line) == "" || len(line) > 998 || field == "Subject" && (len(line) > 78 || len(words) > 75) {
				rt.Fatalf("a line of %s has %d octets, an encoded word %d: %q", field, len(line), len(words), line)
			}
		}
		sent, err := mail.ReadMessage(&raw)
		if err != nil {
			rt.Fatal(err)
		}
		var words mime.WordDecoder
		if title, err := words.DecodeHeader(sent.Header.Get("Subject")); err != nil || title != n.Title {
			rt.Fatalf("the subject reads %q, %v; want %q", title, err, n.Title)
		}
		if all, err := sent.Header.AddressList("To"); err != nil || len(all) != 1 || *all[0] != *to {
			rt.Fatalf("To reads %v, %v; want %q", all, err, to.Name)
		}
	})
}
