package email_test

import (
	"encoding/json"
	"errors"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/secret"
)

func message() push.Message {
	return push.Message{Attempt: 1, Notification: &notification.Notification{
		ID: "n1", UserID: "ada", Category: "chat", Channel: email.Name, To: address, Title: "hello", Body: "world\r\n",
		Priority: notification.PriorityNormal, CreatedAt: time.Unix(1_790_000_000, 0),
	}}
}

func newSender(t *testing.T, cfg email.Config) *email.Sender {
	t.Helper()
	sender, err := email.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sender.Close() })
	return sender
}

// What each answer means, given for the recipient and for the message.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer *smtp.SMTPError
		want   *push.Error // nil: delivered
	}{
		"taken":          {nil, nil},
		"busy":           {&smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 1}}, &push.Error{Class: push.Transient, Code: "450.4.2.1"}},
		"try later":      {&smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}}, &push.Error{Class: push.Transient, Code: "451.4.7.1"}},
		"full":           {&smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}}, &push.Error{Class: push.Transient, Code: "452.4.2.2"}},
		"no such user":   {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}}, &push.Error{Class: push.TargetGone, Code: "550.5.1.1"}},
		"no such domain": {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 2}}, &push.Error{Class: push.TargetGone, Code: "550.5.1.2"}},
		"disabled":       {&smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 2, 1}}, &push.Error{Class: push.TargetGone, Code: "550.5.2.1"}},
		"spam":           {&smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}}, &push.Error{Class: push.Permanent, Code: "554.5.7.1"}},
		"too big":        {&smtp.SMTPError{Code: 552, EnhancedCode: smtp.EnhancedCode{5, 3, 4}}, &push.Error{Class: push.Permanent, Code: "552.5.3.4"}},
		"not logged in":  {&smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}}, &push.Error{Class: push.CredentialsRefused, Code: "530.5.7.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, atRecipient := range []bool{true, false} {
				refuse := func() error {
					if c.answer != nil {
						c.answer.Message = "words with " + address
						return c.answer
					}
					return nil
				}
				s := startServer(t, func(*smtp.Conn, *mail.Message) error { return refuse() })
				if atRecipient {
					s.rcpt = func(string) error { return refuse() }
				}
				sender := newSender(t, s.settings(t))
				for range 2 { // on a new connection, and on the one that was kept
					err := sender.Send(t.Context(), message())
					got, _ := errors.AsType[*push.Error](err)
					if (err == nil) != (c.want == nil) {
						t.Fatalf("gives %v, want %v", err, c.want)
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("outcome differs (-want +got):\n%s", diff)
					}
				}
			}
		})
	}
}

// What is wrong with the server's settings concerns the channel: no notification is to blame.
func TestServerThatRefusesUs(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { t.Error("it was sent"); return nil })
	bare := startServer(t, nil)
	bare.TLSConfig = nil
	for name, c := range map[string]struct {
		change func(*email.Config)
		code   string
	}{
		"password":    {func(c *email.Config) { c.Password = secret.New("wrong") }, "535"},
		"certificate": {func(c *email.Config) { c.Roots = nil }, "tls_or_auth"},
		"no STARTTLS": {func(c *email.Config) { c.Server = "smtp://" + bare.listener.Addr().String() }, "tls_or_auth"},
	} {
		cfg := s.settings(t)
		c.change(&cfg)
		err := newSender(t, cfg).Send(t.Context(), message())
		got, _ := errors.AsType[*push.Error](err)
		if want := (&push.Error{Class: push.CredentialsRefused, Code: c.code, Unsent: true, ChannelWide: true}); !cmp.Equal(want, got) {
			t.Errorf("%s gives %+v, want %+v", name, got, want)
		}
	}
}

// What is sent: a stable identity, and an HTML part beside the text.
func TestMessage(t *testing.T) {
	t.Parallel()
	got := make(chan *mail.Message, 1)
	s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error { got <- m; return nil })
	m := message()
	m.ID, m.To = "a:b", "Ünïcode <"+address+">"
	m.Override = json.RawMessage(`{"html":"<p>ü</p>","subject":"über","reply_to":"help@example.com"}`)
	if err := newSender(t, s.settings(t)).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	sent := <-got
	for name, want := range map[string]string{
		"From": `"Pacer" <pacer@example.com>`, "To": "=?utf-8?q?=C3=9Cn=C3=AFcode?= <" + address + ">", "Reply-To": "<help@example.com>",
		"Message-Id": "<" + strings.TrimSuffix(strings.TrimPrefix(sent.Header.Get("Message-Id"), "<"), "@example.com>") + "@example.com>",
		"Date":       "Mon, 21 Sep 2026 14:13:20 +0000", "Auto-Submitted": "auto-generated",
	} {
		if value := sent.Header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if id := sent.Header.Get("Message-Id"); strings.Contains(id, ":") || len(id) < 20 {
		t.Errorf("the Message-ID is %s", id)
	}
	if value := subjectOf(t, sent); value != "über" {
		t.Errorf("the subject is %q", value)
	}
	want := map[string]string{"text/plain": "world\r\n", "text/html": "<p>ü</p>\r\n"}
	all := parts(t, sent)
	for kind, part := range all {
		all[kind] = strings.TrimRight(part, "\r\n") + "\r\n"
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("parts differ (-want +got):\n%s", diff)
	}
}

// A connection that the server ended while it was kept costs nothing: the next message goes over another.
func TestKeptConnectionThatEnded(t *testing.T) {
	t.Parallel()
	conns := make(chan *smtp.Conn, 4)
	s := startServer(t, func(c *smtp.Conn, _ *mail.Message) error { conns <- c; return nil })
	sender := newSender(t, s.settings(t))
	for range 3 {
		if err := sender.Send(t.Context(), message()); err != nil {
			t.Errorf("send: %v", err)
		}
		_ = (<-conns).Conn().Close()
	}
}

func TestContentThatCannotBe(t *testing.T) {
	t.Parallel()
	sender := newSender(t, email.Config{Server: "smtp://example.com", From: "pacer@example.com"})
	for name, c := range map[string]struct{ title, override, want string }{
		"title injects":    {"a\r\nBcc: x@example.com", ``, "title: is the subject here"},
		"subject injects":  {"", `{"subject":"a\nBcc: x@example.com"}`, "subject: must not hold"},
		"reply_to injects": {"", `{"reply_to":"a@example.com\nBcc: x@example.com"}`, "reply_to: must be an e-mail address"},
		"unknown":          {"", `{"bcc":"x@example.com"}`, "may hold subject, text, html and reply_to"},
		"no text":          {"", `{"html":1}`, "must be texts"},
		"no object":        {"", `[]`, "must be a JSON object"},
		"too long":         {"", `{"html":"` + strings.Repeat("x", 1<<20) + `"}`, "e-mail takes at most 1048576"},
		"fine":             {"ü", `{"html":"<p>","text":""}`, ""},
	} {
		n := message().Notification
		n.Title, n.Override = c.title, json.RawMessage(c.override)
		err := sender.CheckContent(n)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	t.Parallel()
	good := email.Config{Server: "smtp://example.com", From: "pacer@example.com"}
	for want, change := range map[string]func(*email.Config){
		"the sender's address must be":              func(c *email.Config) { c.From = "canary" },
		"the server must be":                        func(c *email.Config) { c.Server = "canary" },
		"the server's scheme must be":               func(c *email.Config) { c.Server = "https://example.com" },
		"the server's port must be":                 func(c *email.Config) { c.Server = "smtp://example.com:99999" },
		"the server's URL names a user":             func(c *email.Config) { c.Server = "smtp://u@example.com" },
		"the server's URL must not hold the passwo": func(c *email.Config) { c.Server = "smtp://u:canary@example.com" },
	} {
		cfg := good
		change(&cfg)
		if _, err := email.New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("gives %v, want %q", err, want)
		}
	}
}
