package email_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/test/transcript"
)

// file is an attachment, as a program reads it that knows nothing of pacer.
type file struct{ Name, Type, Disposition, ID, Content string }

// files lists the attachments of a message.
func files(tb testing.TB, contentType string, body io.Reader) (all []file) {
	tb.Helper()
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		tb.Fatal(err)
	}
	for reader := multipart.NewReader(body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF { //nolint:errorlint // NextPart returns it bare
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		kind := part.Header.Get("Content-Type")
		if strings.HasPrefix(kind, "multipart/") {
			all = append(all, files(tb, kind, part)...)
			continue
		}
		disposition, named, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			continue // a text
		}
		raw, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, file{named["filename"], kind, disposition, part.Header.Get("Content-Id"), string(raw)})
	}
}

// Names are written as RFC 2231 has it, so every program reads them, and a file with a cid belongs to the HTML part.
func TestAttachmentsAreReadBack(t *testing.T) {
	t.Parallel()
	got := make(chan []file, 1)
	s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error {
		got <- files(t, m.Header.Get("Content-Type"), m.Body)
		return nil
	})
	m := message()
	m.Override = json.RawMessage(`{"html":"<img src=cid:logo>","attachments":[
		{"name":"Größe 1\"; x=y.pdf","type":"application/pdf","content":"` +
		base64.StdEncoding.EncodeToString([]byte(strings.Repeat("pdf\x00", 1000))) + `"},
		{"name":"a","content":"aGk="},
		{"name":"logo.png","type":"image/png","content":"","cid":"logo"}]}`)
	if err := newSender(t, s.settings(t)).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want := []file{
		{Name: "logo.png", Type: "image/png", Disposition: "inline", ID: "<logo>"},
		{
			Name: `Größe 1"; x=y.pdf`, Type: "application/pdf", Disposition: "attachment",
			Content: strings.Repeat("pdf\x00", 1000),
		},
		{Name: "a", Type: "application/octet-stream", Disposition: "attachment", Content: "hi"},
	}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("the files differ (-want +got):\n%s", diff)
	}
}

// Whatever a producer writes into texts, names and headers, a message that is sent has the headers that it should have,
// and no other.
func TestNoHeaderCanBeInjected(t *testing.T) {
	t.Parallel()
	got := make(chan *mail.Message, 1)
	s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error { got <- m; return nil })
	cfg := s.settings(t)
	cfg.Unsubscribe = func(userID, _ string) string { return "https://example.com/" + userID }
	sender := newSender(t, cfg)
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a ]{0,40} {70,200}Bcc: x@example.com`),
		rapid.StringOf(rapid.SampledFrom([]rune("a: =?<>\"ü\r\n\t\u2028\u0085,;"))))
	allowed := map[string]bool{
		"From": true, "To": true, "Subject": true, "Date": true, "Message-Id": true, "Mime-Version": true,
		"Content-Type": true, "Content-Transfer-Encoding": true, "Auto-Submitted": true, "List-Unsubscribe": true,
		"List-Unsubscribe-Post": true, "X-Own": true,
	}
	rapid.Check(t, func(rt *rapid.T) {
		subject, value, name := text.Draw(rt, "subject"), text.Draw(rt, "value"), text.Draw(rt, "name")
		override := map[string]any{
			"subject": subject, "headers": map[string]string{rapid.SampledFrom([]string{
				"X-Own", "Bcc", "bCC", "X-Own: a\r\nBcc", "Content-Language", "X Own", "Résumé",
			}).Draw(rt, "header"): value},
			"attachments": []map[string]string{
				{"name": text.Draw(rt, "file"), "type": "text/" + text.Draw(rt, "type")},
			},
		}
		m := message()
		var err error
		if m.Override, err = json.Marshal(override); err != nil {
			rt.Fatal(err)
		}
		m.To = fmt.Sprintf("%q <%s>", name, address)
		if sender.CheckTarget(m.To) != nil {
			m.To = address
		}
		if sender.CheckContent(m.Notification) != nil {
			delete(override, "attachments")
			override["headers"] = map[string]string{"X-Own": value}
			if m.Override, err = json.Marshal(override); err != nil {
				rt.Fatal(err)
			}
		}
		if sender.CheckContent(m.Notification) != nil {
			return
		}
		if err := sender.Send(t.Context(), m); err != nil {
			rt.Fatalf("send: %v", err)
		}
		sent := <-got
		for header, values := range sent.Header {
			if !allowed[header] || len(values) != 1 {
				rt.Fatalf("%s is %q", header, values)
			}
		}
		if sent.Header.Get("List-Unsubscribe") != "<https://example.com/ada>" {
			rt.Fatalf("the header is %q", sent.Header)
		}
	})
}

func TestHeadersAndAttachmentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	sender := newSender(t, email.Config{Server: "smtp://example.com", From: "pacer@example.com"})
	transcript.Play(t, "testdata/refusals.transcript", func(t *testing.T, lines []string) string {
		t.Helper()
		n := message().Notification
		n.Override = json.RawMessage(lines[0])
		err := sender.CheckContent(n)
		if err == nil {
			t.Fatalf("%s is taken", lines[0])
		}
		return err.Error()
	})
}
