package email

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
	"github.com/pacer-notify/pacer/internal/secret"
)

const (
	// maxMessages is how many messages go over one connection. Servers end connections that have had too many.
	maxMessages = 100
	// tooManyConnections is the code with which a server ends a connection.
	tooManyConnections = 421
	// maxIdle is how long a connection is kept unused.
	maxIdle = 30 * time.Second
)

// pool keeps connections to the server, each used by one delivery at a time.
type pool struct {
	// client returns the client. It is a function since the client holds the password and shows it when printed.
	client      func() *gomail.Client
	connections *httpsend.Connections
	password    secret.Secret // never to be shown
	// named is true when reports of failures are wanted, with the notification's id.
	named bool

	mu     sync.Mutex
	idle   []*session // the most recently used is last
	most   int
	closed bool
}

// session is one connection to the server.
type session struct {
	client *smtp.Client
	conn   net.Conn
	sent   int
	used   time.Time
}

func newPool(most int, connections *httpsend.Connections) *pool {
	return &pool{most: most, connections: connections}
}

// opening is a connection that is being opened. The library heeds no context once it has dialled, so an opening can be
// aborted.
type opening struct {
	mu      sync.Mutex
	conn    net.Conn
	aborted bool
}

// openingKey is where the context of a call holds its [opening].
type openingKey struct{}

func (o *opening) dialled(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn = conn
	if o.aborted {
		_ = conn.Close()
	}
}

func (o *opening) abort() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.aborted = true
	if o.conn != nil {
		_ = o.conn.Close()
	}
}

// dial makes a connection and notes it in the context's [opening].
func (p *pool) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.connections.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if o, ok := ctx.Value(openingKey{}).(*opening); ok {
		o.dialled(conn)
	}
	return conn, nil
}

// dialTLS makes a connection with TLS.
func (p *pool) dialTLS(ctx context.Context, network, address string, cfg *tls.Config) (net.Conn, error) {
	conn, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// send delivers a message to an address over a kept connection, or a new one.
func (p *pool) send(ctx context.Context, message *gomail.Msg, n *notification.Notification, to string,
) *push.Error {
	for {
		s := p.take()
		kept := s != nil
		if !kept {
			var failure *push.Error
			if s, failure = p.open(ctx); failure != nil {
				return failure
			}
		}
		stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
		if p.named { // the library writes the option as it is, and knows none for the id
			s.client.SetDSNMailReturnOption("HDRS ENVID=" + n.ID)
		}
		err := p.client().SendWithSMTPClient(s.client, message)
		if !stop() {
			p.discard(s)
		}
		failed, ok := errors.AsType[*gomail.SendError](err)
		switch {
		case err == nil:
			p.put(s)
			return nil
		case message.IsDelivered(): // the message was sent; preparing the connection for the next one failed
			p.discard(s)
			return nil
		case !ok:
			p.discard(s)
			return classifyConnection(ctx, err, false)
		case failed.Reason == gomail.ErrConnCheck && kept && ctx.Err() == nil:
			p.discard(s) // the server had ended it: nothing was sent
			continue
		case failed.ErrorCode() == 0 || ctx.Err() != nil:
			p.discard(s)
			// When only the reply is missing, the server may have accepted the message.
			return classifyConnection(ctx, err, failed.Reason == gomail.ErrSMTPDataClose ||
				failed.Reason == gomail.ErrWriteContent)
		}
		if failed.Reason == gomail.ErrSMTPData || failed.ErrorCode() == tooManyConnections {
			// The server still has the sender and the recipient, or is about to hang up.
			p.discard(s)
		} else {
			p.put(s)
		}
		failure := classify(failed)
		failure.Reply = push.Reply([]byte(replyOf(failed)), n, to, p.password.Reveal())
		return failure
	}
}

// open opens a connection for messages.
func (p *pool) open(ctx context.Context) (*session, *push.Error) {
	o := &opening{}
	stop := context.AfterFunc(ctx, o.abort)
	client, err := p.client().DialToSMTPClientWithContext(context.WithValue(ctx, openingKey{}, o))
	stop()
	if err != nil {
		o.abort()
		return nil, classifyOpening(ctx, err, p.password.Reveal())
	}
	return &session{client: client, conn: o.conn}, nil
}

// take returns the most recently used connection, if it may be used again.
func (p *pool) take() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if time.Since(s.used) < maxIdle {
			return s
		}
		_ = s.conn.Close()
	}
	return nil
}

// put keeps a connection for the next message, unless it has had enough messages.
func (p *pool) put(s *session) {
	s.sent++
	s.used = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || s.sent >= maxMessages || len(p.idle) >= p.most {
		_ = s.conn.Close()
		return
	}
	p.idle = append(p.idle, s)
}

func (p *pool) discard(s *session) { _ = s.conn.Close() }

// close ends all connections.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	p.mu.Unlock()
	p.connections.Close()
}
