package email_test

import (
	"net/mail"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/push/email"
)

// Mail comes back to an address of its own, and a server that can is asked to tell of failures, and of which
// notification. A server that can't is asked for nothing.
func TestMailComesBackToAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]bool{"a server with DSN": true, "a server without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
			s.EnableDSN = dsn
			cfg := s.settings(t)
			token := strings.Repeat("t", 47)
			cfg.BounceAddress, cfg.ReturnToken = "bounces@example.com", func(string, string) string { return token }
			if err := newSender(t, cfg).Send(t.Context(), message()); err != nil {
				t.Fatal(err)
			}
			want := envelope{From: "bounces+" + token + "@example.com", To: address}
			if dsn {
				want.Return, want.ID, want.Notify = "HDRS", "n1", "FAILURE"
			}
			if diff := cmp.Diff(want, s.seen.Load()); diff != "" {
				t.Errorf("the envelope differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounceAddressesThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	token := func(string, string) string { return "" }
	for want, cfg := range map[string]email.Config{
		"the bounce address must be an e-mail address":     {BounceAddress: "canary", ReturnToken: token},
		"the bounce address must have at most 16":          {BounceAddress: strings.Repeat("b", 17) + "@example.com", ReturnToken: token},
		"the bounce address needs a key":                   {BounceAddress: "bounces@example.com"},
		"the bounce address must have at most 16 characte": {BounceAddress: "a+b@example.com", ReturnToken: token},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg.Server, cfg.From = "smtp://example.com", "pacer@example.com"
			if _, err := email.New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("gives %v, want %q", err, want)
			}
		})
	}
}

// A category without a link has neither header.
func TestLinksToUnsubscribe(t *testing.T) {
	t.Parallel()
	got := make(chan *mail.Message, 1)
	s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error { got <- m; return nil })
	cfg := s.settings(t)
	link := "https://notify.example.com/v1/unsubscribe/" + strings.Repeat("x", 450)
	cfg.Unsubscribe = func(userID, category string) string {
		if userID != "ada" || category == "security" {
			return ""
		}
		return link
	}
	sender := newSender(t, cfg)
	for category, want := range map[string][2]string{
		"chat": {"<" + link + ">", "List-Unsubscribe=One-Click"}, "security": {},
	} {
		m := message()
		m.Category = category
		if err := sender.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		sent := (<-got).Header
		if have := [2]string{sent.Get("List-Unsubscribe"), sent.Get("List-Unsubscribe-Post")}; have != want {
			t.Errorf("%s has %q, want %q", category, have, want)
		}
	}
}

// Only what says that the address itself is gone counts: a full mailbox, a policy or a delay do not.
func TestWhichReturnsSayThatAnAddressIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, diagnostic, address string
		want                        bool
	}{
		{status: "5.1.1", diagnostic: "smtp; 550 5.1.1 user unknown", want: true},
		{status: "5.1.2", want: true},
		{status: "5.1.3", want: true},
		{status: "5.1.3", address: "ada@xn--bcher-kva.example"}, // the server knows no such address
		{status: "5.1.3", address: "ü@example.com"},
		{status: "5.1.1", address: "ü@xn--bcher-kva.example", want: true},
		{status: "5.1.10", want: true},
		{status: "5.2.1", want: true},
		{status: "5.2.1", diagnostic: "smtp; 550 5.2.1 The user you are trying to contact is receiving mail at a rate that"},
		{status: "5.0.0", diagnostic: "smtp; 550 No such user here", want: true},
		{status: "5.0.0", diagnostic: "smtp; 554 Message rejected as spam"},
		{status: "5.0.0"},
		{status: "5.2.2", diagnostic: "smtp; 552 5.2.2 mailbox full"},
		{status: "5.7.1", diagnostic: "smtp; 550 5.7.1 no such user may be mailed by you"},
		{status: "4.4.1", diagnostic: "connect timed out"},
		{status: "4.1.1"},
		{status: ""},
	} {
		if got := email.Gone(c.status, c.diagnostic, c.address); got != c.want {
			t.Errorf("%s %q: gone is %t, want %t", c.status, c.diagnostic, got, c.want)
		}
	}
}
