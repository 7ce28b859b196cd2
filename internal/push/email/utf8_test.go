package email_test

import (
	"encoding/json"
	"net/mail"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/notification"
)

// A mail whose addresses are ASCII is sent without SMTPUTF8 (RFC 6531, 3.4): with it, a relay returns the
// mail when the next server does not know that. The connection is the same for all.
func TestSMTPUTF8IsAskedForWhereAnAddressNeedsIt(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	s := startTLSServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
	s.EnableSMTPUTF8 = true
	s.met = func() { connections.Add(1) }
	sender := newSender(t, s.settings(t))
	for _, c := range []struct {
		to, replyTo string
		want        bool
	}{
		{to: "x@example.com"},
		{to: "ü@bücher.example", want: true},
		{to: "Ünïcode <x@example.com>"}, // a name is encoded
		{to: "x@bücher.example", want: true},
		{to: "x@example.com", replyTo: "help@example.com"},
		{to: "x@example.com", replyTo: "hilfe@bücher.example", want: true},
		{to: "x@example.com"},
	} {
		m := message()
		m.Notification = &notification.Notification{ID: "n1", To: c.to, Title: "ü", Body: "ü"}
		if c.replyTo != "" {
			m.Override = json.RawMessage(`{"reply_to":"` + c.replyTo + `","headers":{"X-Campaign":"ü"}}`)
		}
		if err := sender.Send(t.Context(), m); err != nil {
			t.Fatalf("send to %s: %v", c.to, err)
		}
		if got, ok := s.seen.Load().(envelope); !ok || got.UTF8 != c.want {
			t.Errorf("to %s, replies to %q: SMTPUTF8 is %t, want %t", c.to, c.replyTo, got.UTF8, c.want)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// The sender counts as well, and where mail comes back to.
func TestSMTPUTF8IsAskedForWhereTheSenderNeedsIt(t *testing.T) {
	t.Parallel()
	for name, from := range map[string][2]string{
		"sender":         {"bücher@example.com", ""},
		"header":         {"bücher@example.com", "bounces@example.com"},
		"return address": {"pacer@example.com", "bücher@example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
			s.EnableSMTPUTF8 = true
			cfg := s.settings(t)
			cfg.From, cfg.BounceAddress = from[0], from[1]
			cfg.ReturnToken = func(string, string) string { return "t" }
			if err := newSender(t, cfg).Send(t.Context(), message()); err != nil {
				t.Fatal(err)
			}
			if got, ok := s.seen.Load().(envelope); !ok || !got.UTF8 {
				t.Error("it was sent without SMTPUTF8")
			}
		})
	}
}
