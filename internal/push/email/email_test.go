package email_test

import (
	"encoding/json"
	"errors"
	"fmt"
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

// reply is what a server says to a recipient or a message, and what it means.
type reply struct {
	name     string
	code     int // 0: the server accepts the message
	enhanced smtp.EnhancedCode
	words    string // default to some with the address
	want     push.Class
	concerns push.Scope // defaults to the target
}

// replies are those of servers: RFC 5321, RFC 3463, and what is in use.
var replies = []reply{
	{name: "accepted"},
	{name: "busy", code: 450, enhanced: smtp.EnhancedCode{4, 2, 1}, want: push.Transient},
	{name: "try later", code: 451, enhanced: smtp.EnhancedCode{4, 7, 1}, want: push.Transient},
	{name: "full", code: 452, enhanced: smtp.EnhancedCode{4, 2, 2}, want: push.Transient},
	{name: "no such user", code: 550, enhanced: smtp.EnhancedCode{5, 1, 1}, want: push.TargetGone},
	{name: "no such domain", code: 550, enhanced: smtp.EnhancedCode{5, 1, 2}, want: push.TargetGone},
	{name: "disabled", code: 550, enhanced: smtp.EnhancedCode{5, 2, 1}, want: push.TargetGone},
	{name: "spam", code: 554, enhanced: smtp.EnhancedCode{5, 7, 1}, want: push.Permanent},
	{name: "too big", code: 552, enhanced: smtp.EnhancedCode{5, 3, 4}, want: push.Permanent},
	{
		name: "not logged in", code: 530, enhanced: smtp.EnhancedCode{5, 7, 0}, want: push.CredentialsRefused,
		concerns: push.ConcernsEverybody,
	},
	{
		name: "another's sender", code: 553, enhanced: smtp.EnhancedCode{5, 7, 1},
		words: "<" + address + ">: Sender address rejected: not owned by user pacer",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no such sender", code: 550, enhanced: smtp.EnhancedCode{5, 1, 8},
		words: "<pacer@example.com>: Sender address rejected: Domain not found",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no relaying, Postfix", code: 554, enhanced: smtp.EnhancedCode{5, 7, 1},
		words: "<" + address + ">: Relay access denied",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no relaying, Sendmail", code: 550, enhanced: smtp.EnhancedCode{5, 7, 1},
		words: "<" + address + ">... Relaying denied. Proper authentication required.",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no relaying, older Exchange", code: 550, enhanced: smtp.EnhancedCode{5, 7, 1},
		words: "Unable to relay for " + address,
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no relaying, Exchange", code: 550, enhanced: smtp.EnhancedCode{5, 7, 54},
		words: "SMTP; Unable to relay recipient in non-accepted domain",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "another's sender, Exchange", code: 550, enhanced: smtp.EnhancedCode{5, 7, 60},
		words: "SMTP; Client does not have permissions to send as this sender",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{
		name: "no relaying, Office 365", code: 550, enhanced: smtp.EnhancedCode{5, 7, 64},
		words: "TenantAttribution; Relay Access Denied SMTP",
		want:  push.CredentialsRefused, concerns: push.ConcernsCredential,
	},
	{ // another server says so to the one that asks for the recipient
		name: "no relaying, of another server", code: 550, enhanced: smtp.EnhancedCode{5, 1, 1},
		words: "<" + address + ">: Recipient address rejected: undeliverable address: " +
			"host mx.example.com said: 554 5.7.1 <" + address + ">: Relay access denied",
		want: push.TargetGone,
	},
}

// A reply means the same for the recipient and for the message, on a new connection and on a kept one.
func TestRepliesAreClassified(t *testing.T) {
	t.Parallel()
	for _, tt := range replies {
		if tt.words == "" {
			tt.words = "words with " + address
		}
		refuse := func() error {
			if tt.code == 0 {
				return nil
			}
			return &smtp.SMTPError{Code: tt.code, EnhancedCode: tt.enhanced, Message: tt.words}
		}
		var want *push.Error
		if tt.code != 0 {
			e := tt.enhanced
			want = &push.Error{Class: tt.want, Code: fmt.Sprintf("%d.%d.%d.%d", tt.code, e[0], e[1], e[2])}
			want.Concerns = tt.concerns
			if tt.concerns == 0 {
				want.Concerns = push.ConcernsTarget // greylisting of one is no outage of all
			}
			said := strings.ReplaceAll(tt.words, address, "***")
			want.Reply = fmt.Sprintf("%d %d.%d.%d %s", tt.code, e[0], e[1], e[2], said)
		}
		for _, at := range []string{"the message", "the recipient"} {
			t.Run(tt.name+", for "+at, func(t *testing.T) {
				t.Parallel()
				s := startServer(t, func(*smtp.Conn, *mail.Message) error { return refuse() })
				if at == "the recipient" {
					s.rcpt = func(string) error { return refuse() }
				}
				sender := newSender(t, s.settings(t))
				for range 2 { // on a new connection, and on the one that was kept
					err := sender.Send(t.Context(), message())
					got, _ := errors.AsType[*push.Error](err)
					if (err == nil) != (want == nil) {
						t.Fatalf("gives %v, want %v", err, want)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("the outcome differs (-want +got):\n%s", diff)
					}
				}
			})
		}
	}
}

// Wrong settings of the server concern the channel, not a notification.
func TestAServerThatRefusesTheSettingsConcernsTheChannel(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(*smtp.Conn, *mail.Message) error { t.Error("it was sent"); return nil })
	bare := startServer(t, nil)
	bare.TLSConfig = nil
	token := startServer(t, nil)
	token.mechanisms = []string{"XOAUTH2"}
	for name, c := range map[string]struct {
		change func(*email.Config)
		code   string
		reply  string
		why    string
	}{
		"password": {
			change: func(c *email.Config) { c.Password = secret.New("wrong") }, code: "535",
			reply: "535 5.7.8 Authentication failed",
		},
		"certificate": {
			change: func(c *email.Config) { c.Roots = nil }, code: "certificate", why: "is not valid: x509: ",
		},
		"no STARTTLS": {
			change: func(c *email.Config) { c.Server = "smtp://" + bare.listener.Addr().String() },
			code:   "no_starttls", why: "does not offer STARTTLS: set --email-server to smtps://",
		},
		"no mechanism": {
			change: func(c *email.Config) { *c = token.settings(t) }, code: "no_login", why: "offers no way to log in",
		},
		"smtps at a plain port": {
			change: func(c *email.Config) { c.Server = "smtps://" + bare.listener.Addr().String() },
			code:   "plain_smtp", why: "the server speaks plain SMTP at this port",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := s.settings(t)
			c.change(&cfg)
			err := newSender(t, cfg).Send(t.Context(), message())
			got, _ := errors.AsType[*push.Error](err)
			want := &push.Error{
				Class: push.CredentialsRefused, Code: c.code, Unsent: true, Concerns: push.ConcernsEverybody,
			}
			want.Reply = c.reply
			if got != nil && (got.Err == nil) == (c.why == "") && strings.Contains(fmt.Sprint(got.Err), c.why) {
				got.Err = nil
			}
			if !cmp.Equal(want, got) {
				t.Errorf("%s gives %+v, want %+v", name, got, want)
			}
		})
	}
}

// A connection that ends while pacer logs in says nothing of the password: the server may be restarting.
func TestAConnectionThatEndsAtTheLoginRefusesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		login   func(*smtp.Conn)
		timeout time.Duration
		code    string
	}{
		"it ends": {
			login: func(c *smtp.Conn) { _ = c.Conn().Close() }, timeout: time.Hour, code: "connection",
		},
		"it hangs": {
			login: func(*smtp.Conn) { <-t.Context().Done() }, timeout: 100 * time.Millisecond, code: "timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, func(*smtp.Conn, *mail.Message) error { t.Error("it was sent"); return nil })
			s.login = c.login
			cfg := s.settings(t)
			cfg.Timeout = c.timeout
			got, _ := errors.AsType[*push.Error](newSender(t, cfg).Send(t.Context(), message()))
			if got == nil || got.Class != push.Transient || got.Whom() != push.ConcernsHost || !got.Unsent ||
				got.Code != c.code {
				t.Errorf("it gives %+v, want %s, of the host, unsent", got, c.code)
			}
		})
	}
}

// A message has a stable identity, and an HTML part beside the text.
func TestMessageHasIdentityAndHTML(t *testing.T) {
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
		"From": `"Pacer" <pacer@example.com>`, "To": "=?utf-8?q?=C3=9Cn=C3=AFcode?= <" + address + ">",
		"Reply-To": "<help@example.com>",
		"Message-Id": "<" + strings.TrimSuffix(strings.TrimPrefix(sent.Header.Get("Message-Id"), "<"),
			"@example.com>") + "@example.com>",
		"Date": "Mon, 21 Sep 2026 14:13:20 +0000", "Auto-Submitted": "auto-generated",
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

// A scheduled message is of the moment for which it was scheduled: with an older date it would stand far
// down in a mailbox, and look like spam. A repeat has the same date.
func TestAScheduledMessageHasTheDateOfItsSchedule(t *testing.T) {
	t.Parallel()
	got := make(chan time.Time, 1)
	s := startServer(t, func(_ *smtp.Conn, m *mail.Message) error {
		date, err := m.Header.Date()
		got <- date
		return err
	})
	sender := newSender(t, s.settings(t))
	created := message().CreatedAt
	for name, c := range map[string]struct{ sendAt, want time.Time }{
		"at once":     {want: created},
		"in a month":  {sendAt: created.Add(30 * 24 * time.Hour), want: created.Add(30 * 24 * time.Hour)},
		"in the past": {sendAt: created.Add(-time.Hour), want: created},
	} {
		for attempt := range 2 {
			m := message()
			m.Attempt, m.SendAt = attempt+1, c.sendAt
			if err := sender.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if date := <-got; !date.Equal(c.want) {
				t.Errorf("%s, attempt %d: the date is %s, want %s", name, m.Attempt, date, c.want)
			}
		}
	}
}

// When the server has ended a kept connection, the next message goes over another one.
func TestAKeptConnectionThatEndedCostsNothing(t *testing.T) {
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

func TestContentsThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	sender := newSender(t, email.Config{Server: "smtp://example.com", From: "pacer@example.com"})
	for name, c := range map[string]struct{ title, override, want string }{
		"title injects":   {title: "a\r\nBcc: x@example.com", want: "title: becomes the subject"},
		"subject injects": {override: `{"subject":"a\nBcc: x@example.com"}`, want: "subject: must not hold"},
		"reply_to injects": {
			override: `{"reply_to":"a@example.com\nBcc: x@example.com"}`, want: "reply_to: must be an e-mail address",
		},
		"unknown":   {override: `{"bcc":"x@example.com"}`, want: "may hold attachments, headers, html, reply_to, subject, text"},
		"no text":   {override: `{"html":1}`, want: "must be texts"},
		"no object": {override: `[]`, want: "must be a JSON object"},
		"too long": {
			override: `{"html":"` + strings.Repeat("x", 1<<20) + `"}`, want: "e-mail takes at most 1048576",
		},
		"fine": {title: "ü", override: `{"html":"<p>","text":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := message().Notification
			n.Title, n.Override = c.title, json.RawMessage(c.override)
			err := sender.CheckContent(n)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		})
	}
}

func TestSettingsThatCannotBeRightAreRefused(t *testing.T) {
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
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			cfg := good
			change(&cfg)
			_, err := email.New(cfg)
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("gives %v, want %q", err, want)
			}
		})
	}
}
