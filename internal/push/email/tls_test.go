package email_test

import (
	"crypto/tls"
	"net"
	"net/mail"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/push"
)

// Most servers take the password as it is, and offer no other way to log in. Within TLS that is safe.
func TestALoginWithinTLSSendsThePasswordItself(t *testing.T) {
	t.Parallel()
	var taken atomic.Int64
	s := startTLSServer(t, func(*smtp.Conn, *mail.Message) error { taken.Add(1); return nil })
	sender := newSender(t, s.settings(t))
	for range 2 { // on a new connection, and on the one that was kept
		if err := sender.Send(t.Context(), message()); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	if n := taken.Load(); n != 2 {
		t.Errorf("%d mails were taken, want 2", n)
	}
}

// unaware hides from the server that a connection has TLS, as a proxy that ends it does.
type unaware struct{ net.Listener }

// Accept implements [net.Listener].
func (l unaware) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{conn}, nil
}

// A server that offers STARTTLS once more within TLS gets it, and the login after that.
func TestSTARTTLSWithinTLS(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
	s.scheme = "smtps"
	s.start(unaware{tls.NewListener(s.listener, s.config)})
	if err := newSender(t, s.settings(t)).Send(t.Context(), message()); err != nil {
		t.Errorf("send: %v", err)
	}
}

// With smtps a server without TLS gets nothing: least of all the password, however it asks for it.
func TestAServerWithoutTLSGetsNoPassword(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(*smtp.Conn, *mail.Message) error { t.Error("it was sent"); return nil })
	s.scheme, s.TLSConfig, s.AllowInsecureAuth = "smtps", nil, true
	s.login = func(*smtp.Conn) { t.Error("it logged in") }
	s.start(s.listener)
	failure := push.Classify(newSender(t, s.settings(t)).Send(t.Context(), message()))
	if failure == nil || !failure.Unsent {
		t.Errorf("it gives %+v, want a failure, unsent", failure)
	}
}
