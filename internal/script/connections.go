package script

import (
	"cmp"
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Connections are the open connections of a client. When one of them is out of step, all are closed: from outside the
// driver nobody can tell which one it is, and a new connection costs a millisecond.
type Connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// dialTimeout is the driver's own default.
const dialTimeout = 5 * time.Second

// Watch keeps track of the connections that a client with these options opens.
func Watch(options *redis.UniversalOptions) *Connections {
	c := &Connections{open: map[net.Conn]struct{}{}}
	dial := options.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{
			DialTimeout: cmp.Or(options.DialTimeout, dialTimeout), TLSConfig: options.TLSConfig,
		})
	}
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return c.add(conn), nil
	}
	return c
}

// On wraps a client so that its connections are closed when a reply is out of step. The client must have the watched
// options, or be a pipeline of such a client.
func (c *Connections) On(client redis.UniversalClient) redis.UniversalClient {
	return &watching{client, c}
}

// Close closes all of them. The driver opens new ones, and repeats the requests that got no reply.
func (c *Connections) Close() {
	c.mu.Lock()
	open := c.open
	c.open = map[net.Conn]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Close() // it is not used any more, whatever the error
	}
}

// add remembers a connection until it is closed.
func (c *Connections) add(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = struct{}{}
	w := watched{conn, c}
	if socket, ok := conn.(syscall.Conn); ok {
		return &watchedSocket{w, socket}
	}
	return &w
}

// watched is a connection that is forgotten when it is closed.
type watched struct {
	net.Conn

	of *Connections
}

// Close implements [net.Conn].
func (w *watched) Close() error {
	w.of.mu.Lock()
	delete(w.of.open, w.Conn)
	w.of.mu.Unlock()
	return w.Conn.Close()
}

// watchedSocket lets the driver check whether the connection is alive.
type watchedSocket struct {
	watched
	syscall.Conn
}

// watching is a client whose connections can be closed.
type watching struct {
	redis.UniversalClient

	connections *Connections
}

// distrust closes the connections of a client after a foreign reply.
func distrust(client redis.Scripter) {
	if w, ok := client.(*watching); ok {
		w.connections.Close()
	}
}
