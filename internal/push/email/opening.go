package email

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// maxOpening is how long the server may take to open a connection before one that another message has used will do as
// well. A server that serves a limited number at once leaves the others without a greeting.
const maxOpening = 250 * time.Millisecond

// opening is a connection that is being opened. The library heeds no context once it has dialled, so an opening can be
// aborted.
type opening struct {
	began  time.Time
	cancel context.CancelFunc
	given  *session // what it gets instead; guarded by the pool's lock

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
	return httpsend.Secure(ctx, conn, cfg)
}

// open opens a connection for messages. What another message has used meanwhile may come first.
func (p *pool) open(ctx context.Context) (*session, *push.Error) {
	o := &opening{began: time.Now()}
	dialling, cancel := context.WithCancel(context.WithValue(ctx, openingKey{}, o))
	defer cancel()
	o.cancel = cancel
	p.mu.Lock()
	p.openings = append(p.openings, o)
	p.mu.Unlock()
	late := time.AfterFunc(maxOpening, func() { p.giveIdle(o) })
	defer late.Stop()
	stop := context.AfterFunc(dialling, o.abort)
	client, err := p.client().DialToSMTPClientWithContext(dialling)
	stop()
	given := p.opened(o)
	switch {
	case given != nil:
		o.abort()
		return given, nil
	case err != nil:
		o.abort()
		return nil, classifyOpening(ctx, err, p.password.Reveal())
	}
	return &session{client: client, conn: o.conn}, nil
}

// opened ends an opening, and returns the connection that it was given instead; nil for none.
func (p *pool) opened(o *opening) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.openings, o); at >= 0 {
		p.openings = slices.Delete(p.openings, at, at+1)
	}
	return o.given
}

// give gives a connection to whoever has waited for the server for longest, if that is too long. The lock is held.
func (p *pool) give(s *session) bool {
	if len(p.openings) == 0 || time.Since(p.openings[0].began) < maxOpening {
		return false
	}
	p.giveTo(p.openings[0], s)
	return true
}

// giveIdle gives an opening that takes too long a connection that is idle, if there is one.
func (p *pool) giveIdle(o *opening) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.openings, o) {
		return
	}
	if s := p.newest(); s != nil {
		p.giveTo(o, s)
	}
}

// giveTo gives an opening a connection. The lock is held.
func (p *pool) giveTo(o *opening, s *session) {
	p.openings = slices.DeleteFunc(p.openings, func(other *opening) bool { return other == o })
	o.given = s
	o.cancel()
}
