package httpsend

import (
	"context"
	"errors"
	"net"
	"sync"
)

// errClosed says that a connection was wanted after the sender was closed.
var errClosed = errors.New("the sender is closed")

// Connections keeps the open connections of a sender, to close them all. The transport closes only idle ones, and an
// HTTP/2 connection is not idle while it still has to end a cancelled call.
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

// NewConnections keeps the connections that a dialer makes.
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

// Close ends all connections, also those that are still being made.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for kept := range c.open {
		_ = kept.Conn.Close()
	}
	clear(c.open)
}

// connection is an open connection.
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
