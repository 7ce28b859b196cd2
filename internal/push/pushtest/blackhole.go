package pushtest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Blackhole passes connections on to a server until it swallows them: then nothing arrives on them any more, in either
// direction, and nobody is told. So does a network whose firewall forgets a connection. New connections pass.
type Blackhole struct {
	listener net.Listener
	accepted atomic.Int64
	// swallowed counts how often the connections up to then were swallowed.
	swallowed atomic.Int64
	pipes     sync.WaitGroup
	// life ends with the test, and the connections with it: whoever waits on one need not give up first.
	life context.Context
}

// NewBlackhole starts one before a server's address.
func NewBlackhole(tb testing.TB, server string) *Blackhole {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	b := &Blackhole{listener: listener, life: life}
	b.pipes.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.accepted.Add(1)
			b.pipes.Go(func() { b.pass(conn, server) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		end()
		b.pipes.Wait()
	})
	return b
}

// Address is where it listens.
func (b *Blackhole) Address() string { return b.listener.Addr().String() }

// Accepted counts the connections that it took.
func (b *Blackhole) Accepted() int { return int(b.accepted.Load()) }

// Swallow swallows all connections that are open.
func (b *Blackhole) Swallow() { b.swallowed.Add(1) }

// pass passes a connection on until one side ends.
func (b *Blackhole) pass(conn net.Conn, server string) {
	defer conn.Close()
	to, err := (&net.Dialer{Timeout: time.Minute}).DialContext(b.life, "tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	forget := context.AfterFunc(b.life, func() {
		_ = conn.Close()
		_ = to.Close()
	})
	defer forget()
	born := b.swallowed.Load()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{conn, to}, {to, conn}} {
		both.Go(func() {
			defer conn.Close()
			defer to.Close()
			_, _ = io.Copy(&throat{Conn: way[1], gone: func() bool { return b.swallowed.Load() != born }}, way[0])
		})
	}
	both.Wait()
}

// throat writes to a connection unless that is swallowed.
type throat struct {
	net.Conn
	gone func() bool
}

// Write implements [io.Writer].
func (t *throat) Write(data []byte) (int, error) {
	if t.gone() {
		return len(data), nil
	}
	n, err := t.Conn.Write(data)
	if err != nil {
		return n, errors.Join(io.ErrClosedPipe, err)
	}
	return n, nil
}

// ReadFrom hides the one of the connection, which would not ask whether it is swallowed.
func (t *throat) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{t}, r)
}
