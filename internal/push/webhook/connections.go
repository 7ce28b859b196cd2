package webhook

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/pacer-notify/pacer/internal/egress"
)

// errClosed is the answer of a sender that was closed.
var errClosed = errors.New("the webhook sender is closed")

// connections are the open ones of a sender. The transport can close idle ones, but keeps one over HTTP/2 open where the
// end of a cancelled call was not worked off yet.
type connections struct {
	dialer *egress.Dialer

	mu     sync.Mutex
	open   map[*connection]struct{}
	closed bool
}

func newConnections(dialer *egress.Dialer) *connections {
	return &connections{dialer: dialer, open: map[*connection]struct{}{}}
}

// dial makes a connection, for [http.Transport].
func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
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

// close ends all connections, and those that are still being made.
func (c *connections) close() {
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
	among *connections
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	c.among.mu.Lock()
	delete(c.among.open, c)
	c.among.mu.Unlock()
	return c.Conn.Close()
}
