package embedded

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// How many bytes may be under way on a connection before its writer waits.
//
// A client writes a pipeline whole before it reads the first reply, and the server writes each reply before it reads
// on. So all replies of a pipeline must find room, or both wait for each other for ever; this is why a connection
// without a buffer, such as [net.Pipe], or with one of fixed size, such as a socket, does not do. A Redis keeps replies
// in memory likewise. The buffer takes only what is in it, and the client's deadlines end a pipeline that exceeds even
// this.
const (
	maxRequests = 64 << 10
	maxReplies  = 1 << 30
)

// keptBuffer is the largest buffer that a connection keeps while nothing is in it.
const keptBuffer = 64 << 10

// Dialer connects clients to a miniredis of this process, which the first connection starts. There is no socket, so
// nobody else can connect.
func Dialer(m *miniredis.Miniredis) func(ctx context.Context, network, address string) (net.Conn, error) {
	started := sync.OnceValues(func() (*server.Server, error) {
		first, err := m.Dial()
		if err != nil {
			return nil, fmt.Errorf("start the in-process Redis: %w", err)
		}
		m.Lock()
		defer m.Unlock()
		m.Server().SetPreHook((&shebangs{names: map[string]string{}}).rewrite)
		return m.Server(), first.Close()
	})
	return func(context.Context, string, string) (net.Conn, error) {
		to, err := started()
		if err != nil {
			return nil, err
		}
		client, end := newPipe()
		to.ServeConn(end)
		return client, nil
	}
}

// newPipe makes a connection in memory: what one end writes the other reads.
func newPipe() (client, server net.Conn) {
	requests, replies := newStream(maxRequests), newStream(maxReplies)
	return &conn{in: replies, out: requests}, &conn{in: requests, out: replies}
}

// conn is one end of a connection in memory.
type conn struct{ in, out *stream }

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close implements [net.Conn]. The other end can still read what was written before.
func (c *conn) Close() error {
	c.in.change(func(s *stream) { s.abandoned = true; s.buffer = bytes.Buffer{} })
	c.out.change(func(s *stream) { s.ended = true })
	return nil
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // it never fails
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func(s *stream) { s.readBy = t })
	return nil
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.change(func(s *stream) { s.writeBy = t })
	return nil
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return address{} }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return address{} }

// address is that of both ends.
type address struct{}

// Network implements [net.Addr].
func (address) Network() string { return "memory" }

// String implements [net.Addr].
func (address) String() string { return "memory" }

// stream is one direction of a connection.
type stream struct {
	most int // bytes in the buffer

	mu        sync.Mutex
	changed   *sync.Cond
	buffer    bytes.Buffer
	ended     bool // its writer has closed
	abandoned bool // its reader has closed

	readBy, writeBy time.Time // zero for never
}

func newStream(most int) *stream {
	s := &stream{most: most}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// change makes a change and wakes whoever may wait for it.
func (s *stream) change(do func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s)
	s.changed.Broadcast()
}

// read waits until there is something, and takes it.
func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.abandoned:
			return 0, io.ErrClosedPipe
		case past(s.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case s.buffer.Len() > 0:
			n, err := s.buffer.Read(p)
			if s.buffer.Len() == 0 && s.buffer.Cap() > keptBuffer {
				s.buffer = bytes.Buffer{}
			}
			s.changed.Broadcast()
			return n, err
		case s.ended:
			return 0, io.EOF
		}
		s.wait(s.readBy)
	}
}

// write puts all of p into the buffer, and waits for room as often as it must.
func (s *stream) write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.ended, s.abandoned:
			return written, io.ErrClosedPipe
		case past(s.writeBy):
			return written, os.ErrDeadlineExceeded
		case len(p) == 0:
			return written, nil
		case s.buffer.Len() < s.most:
			n, err := s.buffer.Write(p[:min(len(p), s.most-s.buffer.Len())])
			if err != nil {
				return written, err
			}
			p, written = p[n:], written+n
			s.changed.Broadcast()
			continue
		}
		s.wait(s.writeBy)
	}
}

// wait waits for the next change, or until the deadline.
func (s *stream) wait(deadline time.Time) {
	if !deadline.IsZero() {
		timer := time.AfterFunc(time.Until(deadline), func() { s.change(func(*stream) {}) })
		defer timer.Stop()
	}
	s.changed.Wait()
}

func past(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }
