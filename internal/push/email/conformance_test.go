package email_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
	"github.com/pacer-notify/pacer/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	address  = "canaryada7f31@example.com"
	password = "canarypassword52e0"
)

// server is a mail server by another author, with TLS and a login.
type server struct {
	*smtp.Server
	scheme   string // of the URL that leads to it: smtp is STARTTLS, smtps is TLS from the start
	listener net.Listener
	config   *tls.Config
	served   sync.WaitGroup
	// data accepts or refuses a message.
	data func(c *smtp.Conn, message *mail.Message) error
	// rcpt accepts or refuses a recipient. Nil accepts all.
	rcpt func(to string) error
	// greet and mail accept or refuse a connection and a sender. Nil accepts all.
	greet, mail func() error
	// mechanisms are the ways to log in that it offers.
	mechanisms []string
	// login is called when a client logs in. Nil does nothing.
	login func(*smtp.Conn)
	met   func()
	// seen is the latest [envelope].
	seen atomic.Value
	// logout is called when an accepted connection ends. Nil does nothing.
	logout func()
}

func startServer(tb testing.TB, data func(*smtp.Conn, *mail.Message) error) *server {
	tb.Helper()
	s := newServer(tb, data)
	s.start(s.listener)
	return s
}

// startTLSServer starts one that speaks TLS from the start.
func startTLSServer(tb testing.TB, data func(*smtp.Conn, *mail.Message) error) *server {
	tb.Helper()
	s := newServer(tb, data)
	s.scheme = "smtps"
	s.start(tls.NewListener(s.listener, s.config))
	return s
}

// newServer makes a server that listens, and accepts nobody before it starts.
func newServer(tb testing.TB, data func(*smtp.Conn, *mail.Message) error) *server {
	tb.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	certified.Close()
	s := &server{
		scheme: "smtp", mechanisms: []string{sasl.Plain}, data: data, config: certified.TLS, met: func() {},
	}
	var mu sync.Mutex
	refused := map[*smtp.Conn]error{} // who falls back to HELO is refused again, as by a server that hangs up
	s.Server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s.met()
		if s.greet != nil {
			mu.Lock()
			defer mu.Unlock()
			if err := refused[c]; err != nil {
				return nil, err
			}
			if err := s.greet(); err != nil {
				refused[c] = err
				return nil, err
			}
		}
		return &session{server: s, conn: c}, nil
	}))
	s.Domain, s.TLSConfig = "mail.example.com", s.config
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.EnableBINARYMIME, s.MaxMessageBytes, s.MaxLineLength = false, 4<<20, 4<<10
	var config net.ListenConfig
	var err error
	if s.listener, err = config.Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		s.unplug()
		s.served.Wait()
	})
	return s
}

// start accepts the clients of a listener.
func (s *server) start(listener net.Listener) {
	s.served.Go(func() { _ = s.Serve(listener) })
}

// unplug ends the listener, which the server may not know yet, and all connections.
func (s *server) unplug() {
	_ = s.listener.Close()
	_ = s.Close()
}

// settings lead a sender to the server.
func (s *server) settings(tb testing.TB) email.Config {
	tb.Helper()
	roots := tlsRoots(tb, s.config)
	return email.Config{
		Server: s.scheme + "://pacer@" + s.listener.Addr().String(), Password: secret.New(password),
		From: "Pacer <pacer@example.com>", Timeout: time.Hour, Roots: roots,
	}
}

// envelope is how a message was announced.
type envelope struct {
	From, To, Return, ID, Notify string
	UTF8                         bool
}

// session is one connection.
type session struct {
	server *server
	conn   *smtp.Conn
	authed bool
	envelope
}

func (s *session) AuthMechanisms() []string { return s.server.mechanisms }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, given string) error {
		if s.server.login != nil {
			s.server.login(s.conn)
		}
		if user != "pacer" || given != password {
			return smtp.ErrAuthFailed
		}
		s.authed = true
		return nil
	}), nil
}

func (s *session) Reset() {}

func (s *session) Logout() error {
	if s.server.logout != nil {
		s.server.logout()
	}
	return nil
}

func (s *session) Mail(from string, options *smtp.MailOptions) error {
	if _, secured := s.conn.TLSConnectionState(); !s.authed || !secured || !strings.Contains(from, "@") {
		return smtp.ErrAuthRequired
	}
	s.envelope = envelope{
		From: from, Return: string(options.Return), ID: options.EnvelopeID, UTF8: options.UTF8,
	}
	if s.server.mail != nil {
		return s.server.mail()
	}
	return nil
}

func (s *session) Rcpt(to string, options *smtp.RcptOptions) error {
	for _, notify := range options.Notify {
		s.Notify += string(notify)
	}
	s.To = to
	s.server.seen.Store(s.envelope)
	if s.server.rcpt != nil {
		return s.server.rcpt(to)
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(message.Body)
	if err != nil {
		return err
	}
	message.Body = strings.NewReader(string(body))
	return s.server.data(s.conn, message)
}

// refusals are the replies with which the server refuses a message.
var refusals = map[pushtest.Kind]*smtp.SMTPError{
	pushtest.Refused: {Code: 554, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "refused for " + address},
	pushtest.Failing: {Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try again " + address},
	pushtest.Gone:    {Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user " + address},
}

// text reads the message's text part.
func text(tb testing.TB, m *mail.Message) string {
	tb.Helper()
	return decoded(tb, m.Header.Get("Content-Transfer-Encoding"), m.Body)
}

func decoded(tb testing.TB, encoding string, body io.Reader) string {
	tb.Helper()
	if strings.EqualFold(encoding, "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	all, err := io.ReadAll(body)
	if err != nil {
		tb.Errorf("read the text: %v", err)
	}
	return string(all)
}

// parts reads the parts of a multipart message, by their types.
func parts(tb testing.TB, m *mail.Message) map[string]string {
	tb.Helper()
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]string{}
	for reader := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			tb.Fatal(err)
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			tb.Fatal(err)
		}
		all[kind] = decoded(tb, part.Header.Get("Content-Transfer-Encoding"), part)
	}
}

func subjectOf(tb testing.TB, m *mail.Message) string {
	tb.Helper()
	subject, err := (&mime.WordDecoder{}).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		tb.Errorf("read the subject: %v", err)
	}
	return subject
}

// subject plays a provider by a server that start starts.
func subject(tb testing.TB, p *pushtest.Provider,
	start func(testing.TB, func(*smtp.Conn, *mail.Message) error) *server,
) pushtest.Subject {
	tb.Helper()
	s := start(tb, func(c *smtp.Conn, m *mail.Message) error {
		if len(m.Header["To"]) != 1 || len(m.Header["Subject"]) > 1 || m.Header.Get("Bcc") != "" ||
			!strings.Contains(m.Header.Get("To"), address) {
			tb.Errorf("the header is %v", m.Header)
		}
		a := p.Receive(pushtest.Call{Identity: m.Header.Get("Message-Id"), Title: subjectOf(tb, m), Body: text(tb, m)})
		switch a.Kind {
		case pushtest.Hangs:
			<-p.Over()
			return io.EOF
		case pushtest.HangsUp:
			_ = c.Conn().Close()
			return io.EOF
		case pushtest.Delivered, pushtest.Refused, pushtest.Failing, pushtest.Throttled, pushtest.Gone,
			pushtest.Unreachable:
		}
		if refusal, ok := refusals[a.Kind]; ok {
			return refusal
		}
		return nil
	})
	s.met = p.Contact
	return pushtest.Subject{
		New: func(*slog.Logger) push.Sender {
			sender, err := email.New(s.settings(tb))
			if err != nil {
				tb.Fatal(err)
			}
			return sender
		},
		Target: "Ada <" + address + ">",
		Good:   []string{"x@example.com", `"A, B" <x@example.com>`, "ü@bücher.example"},
		Bad: []string{
			"", "canaryada7f31", "canaryada7f31@", "a@b.c, " + address, address + "\r\nBcc: x@example.com",
			"<" + address, strings.Repeat("a", 65) + "@canaryada7f31.example",
			"canaryada7f31@-ü.example", "canaryada7f31@ü..example", "canaryada7f31@\u0301ü.example",
		},
		Secrets:  []string{"canaryada7f31", password},
		Identity: func(id string) string { return "<" + id + "@example.com>" },
		Unplug:   s.unplug,
		Drain: func() {
			ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
			defer cancel()
			if err := s.Shutdown(ctx); err != nil && !errors.Is(err, smtp.ErrServerClosed) {
				tb.Errorf("drain the server: %v", err)
			}
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, func(*smtp.Conn, *mail.Message) error) *server{
		"STARTTLS": startServer, "TLS": startTLSServer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pushtest.Run(t, pushtest.Features{
				Channel: email.Settings{}.Channel(),
				Kinds: []pushtest.Kind{
					pushtest.Refused, pushtest.Failing, pushtest.Gone, pushtest.Hangs, pushtest.HangsUp,
					pushtest.Unreachable,
				},
				Content: true,
			}, func(tb testing.TB, p *pushtest.Provider) pushtest.Subject {
				tb.Helper()
				return subject(tb, p, start)
			})
		})
	}
}
