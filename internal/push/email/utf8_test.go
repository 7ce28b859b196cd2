package email_test

import (
	"encoding/json"
	"net/mail"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push"
)

// Domains are written in ASCII in the envelope and in each header, so every server takes them. SMTPUTF8 is asked for
// only where an address is not ASCII before its @ (RFC 6531, 3.4): with it, a relay returns the mail when the next
// server does not know that. A server that lacks it gets no such mail.
func TestInternationalizedAddresses(t *testing.T) {
	t.Parallel()
	const idn = "@xn--bcher-kva.example"
	for name, c := range map[string]struct {
		from, bounce, to, replyTo string // default to addresses that are ASCII, or to none
		lacks                     bool   // the server has no SMTPUTF8
		sent                      envelope
		header                    map[string]string
		want                      push.Error
	}{
		"names": {to: "Ünïcode <x@example.com>", sent: envelope{To: "x@example.com"}},
		"domain": {
			to: "x@BÜCHER.example", sent: envelope{To: "x" + idn}, header: map[string]string{"To": "<x" + idn + ">"},
		},
		"dots":    {to: "x@bücher。example", lacks: true, sent: envelope{To: "x" + idn}},
		"is xn--": {to: "x" + idn, sent: envelope{To: "x" + idn}},
		"sender's domain": {
			from: "P <p@bücher.example>", lacks: true, sent: envelope{From: "p" + idn},
			header: map[string]string{"From": `"P" <p` + idn + ">", "Message-Id": "<n1" + idn + ">"},
		},
		"two @": {from: `"a@ü"@bücher.example`, sent: envelope{From: "a@ü" + idn, UTF8: true}, header: map[string]string{
			"Message-Id": "<n1" + idn + ">",
		}},
		"where it comes back to": {bounce: "b@bücher.example", lacks: true, sent: envelope{From: "b+t" + idn}},
		"where replies go": {
			replyTo: "help@bücher.example", lacks: true, header: map[string]string{"Reply-To": "<help" + idn + ">"},
		},
		"before the @": {
			to: "ü@bücher.example", sent: envelope{To: "ü" + idn, UTF8: true},
			header: map[string]string{"To": "<ü" + idn + ">"},
		},
		"before the @, of replies":  {replyTo: "ü@example.com", sent: envelope{UTF8: true}},
		"before the @, of a sender": {from: "ü@example.com", sent: envelope{From: "ü@example.com", UTF8: true}},
		"before the @, returned":    {bounce: "ü@example.com", sent: envelope{From: "ü+t@example.com", UTF8: true}},
		"a server that lacks it": {
			to: "ü@example.com", lacks: true, want: push.Error{Class: push.Permanent, Concerns: push.ConcernsTarget},
		},
		"a server that lacks it for replies": {
			replyTo: "ü@example.com", lacks: true, want: push.Error{Class: push.Permanent, Concerns: push.ConcernsTarget},
		},
		"a server that lacks it for the sender": {
			from: "ü@example.com", lacks: true,
			want: push.Error{Class: push.CredentialsRefused, Concerns: push.ConcernsEverybody},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan *mail.Message, 1)
			s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error { got <- m; return nil })
			s.EnableSMTPUTF8 = !c.lacks
			cfg, m := s.settings(t), message()
			cfg.BounceAddress, cfg.ReturnToken = c.bounce, func(string, string) string { return "t" }
			want := envelope{From: "pacer@example.com", To: address}
			if c.from != "" {
				cfg.From, want.From = c.from, c.sent.From
			}
			if c.bounce != "" {
				want.From = c.sent.From
			}
			if c.to != "" {
				m.To, want.To = c.to, c.sent.To
			}
			if c.replyTo != "" {
				m.Override = json.RawMessage(`{"reply_to":"` + c.replyTo + `","headers":{"X-Campaign":"ü"}}`)
			}
			want.UTF8 = c.sent.UTF8
			failure := push.Classify(newSender(t, cfg).Send(t.Context(), m))
			if c.want.Class != 0 {
				if failure == nil || failure.Class != c.want.Class || failure.Concerns != c.want.Concerns ||
					!failure.Unsent || failure.Code != "no_smtputf8" || failure.Err == nil || s.seen.Load() != nil {
					t.Errorf("it gives %+v, want %+v, unsent", failure, c.want)
				}
				return
			}
			if failure != nil {
				t.Fatal(failure)
			}
			if diff := cmp.Diff(want, s.seen.Load()); diff != "" {
				t.Errorf("the envelope differs (-want +got):\n%s", diff)
			}
			sent := (<-got).Header
			for header, want := range c.header {
				if got := sent.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
		})
	}
}

// One connection serves mails that need SMTPUTF8 and mails that don't. A server that calls an internationalized address
// wrong does not know such addresses: the device stays.
func TestAServerThatDoesNotKnowAnInternationalizedAddress(t *testing.T) {
	t.Parallel()
	s := startTLSServer(t, nil)
	s.EnableSMTPUTF8 = true
	s.rcpt = func(string) error {
		return &smtp.SMTPError{Code: 553, EnhancedCode: smtp.EnhancedCode{5, 1, 3}, Message: "bad address syntax"}
	}
	var connections atomic.Int64
	s.met = func() { connections.Add(1) }
	sender := newSender(t, s.settings(t))
	for to, want := range map[string]push.Class{
		"x@example.com": push.TargetGone, "x@bücher.example": push.Permanent, "ü@example.com": push.Permanent,
		"x@XN--BCHER-KVA.example": push.Permanent,
	} {
		m := message()
		m.To = to
		failure := push.Classify(sender.Send(t.Context(), m))
		got, _ := s.seen.Load().(envelope)
		if failure == nil || failure.Class != want || got.UTF8 != (to == "ü@example.com") {
			t.Errorf("to %s: %+v, want %s; the envelope is %+v", to, failure, want, got)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
