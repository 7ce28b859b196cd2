package httpsend

import (
	"context"
	"errors"
	"net"
	"sync"
)

// errClosed is the answer of a sender that was closed.
var errClosed = errors.New("the sender is closed")

// Connections are the open ones of a sender. The transport can close idle ones, but keeps one over HTTP/2 open where
// the end of a cancelled call was not worked off yet.
type Connections struct {
	dialer Dialer

	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

// Dialer makes connections, as [net.Dialer] and the guarded one of package egress do.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// NewConnections keeps what a dialer makes.
func NewConnections(dialer Dialer) *Connections {
	return &Connections{dialer: dialer, open: map[*connection]struct{}{}}
}

// Dial makes a connection, for [http.Transport].
func (c *Connections) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	kept := &connection{Conn: conn, among: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	c.open[kept] = struct{}{}
	return kept, nil
}

// Close ends all connections, and those that are still being made.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for kept := range c.open {
		_ = kept.Conn.Close()
	}
	clear(c.open)
}

// connection is one of them until it is closed.
type connection struct {
	net.Conn
	among *Connections
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.among.mu.Lock()
	delete(c.among.open, c)
	c.among.mu.Unlock()
	return c.Conn.Close()
}
