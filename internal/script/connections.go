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

// Connections knows the connections of a client, so that they can be closed when one of them answers out of step. Which
// one that is can't be told from outside the driver, and a connection costs a millisecond: all of them go.
type Connections struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// dialTimeout is the driver's own default.
const dialTimeout = 5 * time.Second

// Watch has the connections remembered that a client with these options makes.
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

// On gives a client that closes the connections when a script's answer is out of step. It must be the one with the
// options that are watched, or a pipeline of it.
func (c *Connections) On(client redis.UniversalClient) redis.UniversalClient {
	return &watching{client, c}
}

// Close closes all of them. The driver makes new ones, and asks again what was not answered.
func (c *Connections) Close() {
	c.mu.Lock()
	open := c.open
	c.open = map[net.Conn]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Close() // it is of no use any more, whatever it says
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

// watchedSocket lets the driver look whether the connection is alive.
type watchedSocket struct {
	watched
	syscall.Conn
}

// watching is a client whose connections can be closed.
type watching struct {
	redis.UniversalClient

	connections *Connections
}

// distrust closes the connections of a client that gave a foreign answer.
func distrust(client redis.Scripter) {
	if w, ok := client.(*watching); ok {
		w.connections.Close()
	}
}
