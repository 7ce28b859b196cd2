package email

import (
	"context"
	"errors"
	"net"
	"slices"
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
	// maxIdle is how long a connection is kept unused, and maxSurplus how long one that is kept beyond [Config.Idle]:
	// as long as Postfix keeps its own. A burst leaves many connections; the next one needs them soon or not at all.
	maxIdle, maxSurplus = 30 * time.Second, 2 * time.Second
)

// pool keeps connections to the server, each used by one delivery at a time.
type pool struct {
	// client returns the client. It is a function since the client holds the password and shows it when printed.
	client      func() *gomail.Client
	connections *httpsend.Connections
	password    secret.Secret // never to be shown
	// named is true when reports of failures are wanted, with the notification's id.
	named bool

	mu       sync.Mutex
	idle     []*session  // the most recently used is last
	openings []*opening  // under way, the first is the oldest
	most     int         // so many are kept for maxIdle
	trimming *time.Timer // runs while more than that are kept
	closed   bool
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

// send delivers a message to an address over a kept connection, or a new one.
func (p *pool) send(ctx context.Context, message *gomail.Msg, n *notification.Notification, to string,
) *push.Error {
	for {
		s := p.take()
		if s == nil {
			var failure *push.Error
			if s, failure = p.open(ctx); failure != nil {
				return failure
			}
		}
		stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
		if p.named { // the library writes the option as it is, and knows none for the id
			s.client.SetDSNMailReturnOption("HDRS ENVID=" + n.ID)
		}
		utf8 := needsUTF8(message)
		if offered, _ := s.client.Extension("SMTPUTF8"); utf8 && !offered {
			p.put(s)
			return classifyNoUTF8(message)
		}
		s.client.SkipSMTPUTF8(!utf8)
		err := p.client().SendWithSMTPClient(s.client, message)
		if !stop() {
			p.discard(s)
		}
		failed, ok := errors.AsType[*gomail.SendError](err)
		switch {
		case err == nil:
			p.put(s)
			return nil
		case !ok:
			p.discard(s)
			return classifyConnection(ctx, err, false)
		case s.sent > 0 && hadEnded(failed) && ctx.Err() == nil:
			p.discard(s) // nothing was sent
			p.discardIdle()
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
		failure := classify(failed, to)
		failure.Reply = push.Reply([]byte(replyOf(failed)), n, to, p.password.Reveal())
		return failure
	}
}

// needsUTF8 reports whether an address of the message, or of those headers, is not ASCII before its @. Only such a
// message should ask for SMTPUTF8 (RFC 6531, 3.4): a relay returns what asks for it when the next server does not know
// it. All else in a header is encoded.
func needsUTF8(message *gomail.Msg, of ...gomail.AddrHeader) bool {
	if len(of) == 0 {
		of = []gomail.AddrHeader{gomail.HeaderEnvelopeFrom, gomail.HeaderFrom, gomail.HeaderTo, gomail.HeaderReplyTo}
	}
	for _, header := range of {
		for _, address := range message.GetAddrHeader(header) {
			if !isASCII(address.Address) {
				return true
			}
		}
	}
	return false
}

// hadEnded reports whether a kept connection turned out to have ended when the next message began on it. Servers say
// 421 as they hang up or, like those of Amazon and Google, 451. What they say of the sender they say again on a new
// one.
func hadEnded(failed *gomail.SendError) bool {
	code := failed.ErrorCode()
	return failed.Reason == gomail.ErrConnCheck ||
		failed.Reason == gomail.ErrSMTPMailFrom && (code == 0 || code/100 == 4)
}

// take returns the most recently used connection, if it may be used again.
func (p *pool) take() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest()
}

// newest is take while the lock is held.
func (p *pool) newest() *session {
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
	if p.closed || s.sent >= maxMessages {
		_ = s.conn.Close()
		return
	}
	if p.give(s) {
		return
	}
	p.idle = append(p.idle, s)
	if len(p.idle) > p.most && p.trimming == nil {
		p.trimming = time.AfterFunc(maxSurplus, p.trim)
	}
}

// trim ends the connections that are kept beyond the most, once they have been unused for long enough.
func (p *pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trimming = nil
	surplus := 0
	for surplus < len(p.idle)-p.most && time.Since(p.idle[surplus].used) >= maxSurplus {
		_ = p.idle[surplus].conn.Close()
		surplus++
	}
	p.idle = slices.Delete(p.idle, 0, surplus)
	if !p.closed && len(p.idle) > p.most {
		p.trimming = time.AfterFunc(maxSurplus-time.Since(p.idle[0].used), p.trim)
	}
}

func (p *pool) discard(s *session) { _ = s.conn.Close() }

// discardIdle ends the idle connections: when the one that was used last had ended, so have they.
func (p *pool) discardIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle {
		_ = s.conn.Close()
	}
	p.idle = nil
}

// close ends all connections.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	if p.trimming != nil {
		p.trimming.Stop()
	}
	p.mu.Unlock()
	p.connections.Close()
}
