package chaos_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection of a process to Postgres. The real one is outside; what is read of it can be held, and lost.
type link struct {
	w    *world
	proc *process
	real net.Conn
	pid  atomic.Uint32 // of the server's side; 0 until the first statement

	mu       sync.Mutex
	verdict  verdict
	deadline time.Time
	cut      error
	held     []byte // what was written under a verdict of late
	read     []byte // what has come and was not read yet
	copying  bool   // rows of a COPY were written last
	poke     chan struct{}
	closed   bool
}

func (w *world) dial(p *process) (net.Conn, error) {
	var conn net.Conn
	var err error
	w.database.outside.do(func() {
		config := w.database.config.ConnConfig
		conn, err = (&net.Dialer{}).DialContext(context.Background(), "tcp",
			net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	})
	if err != nil {
		return nil, err
	}
	l := &link{w: w, proc: p, real: conn, poke: make(chan struct{}, 1), verdict: made}
	p.addLink(l)
	return l, nil
}

// arm reports what becomes of the next statement.
func (l *link) arm(v verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.verdict = v
}

func (l *link) fail(err error) {
	l.mu.Lock()
	if l.cut == nil {
		l.cut = err
	}
	l.mu.Unlock()
	l.wake()
}

func (l *link) wake() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// executes reports whether messages to the server make it execute something, apart from a mere preparation.
func executes(messages []byte) bool {
	for len(messages) >= 5 {
		size := int(binary.BigEndian.Uint32(messages[1:5])) + 1
		if messages[0] == 'E' || messages[0] == 'Q' {
			return true
		}
		if size < 5 || size > len(messages) {
			return false
		}
		messages = messages[size:]
	}
	return false
}

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	l.mu.Lock()
	cut, v := l.cut, l.verdict
	l.copying = len(p) > 0 && (p[0] == 'd' || p[0] == 'c')
	l.mu.Unlock()
	if cut != nil {
		return 0, cut
	}
	if len(p) == 16 && binary.BigEndian.Uint32(p[4:8]) == 80877102 {
		l.fail(errCut) // a request to cancel, which may come too late: here it always does
		return 0, errCut
	}
	runs := executes(p)
	switch {
	case v == notMade || v == dead || v == lastBefore:
		l.fail(errCut)
		return 0, errCut
	case v == late && runs:
		l.mu.Lock()
		l.held = append([]byte(nil), l.w.database.rewritten(p)...)
		l.mu.Unlock()
		l.w.arriveLater("postgres late statement", l.deliverHeld)
		return len(p), nil
	}
	now, statements := time.Now(), l.w.database.rewritten(p)
	var err error
	l.w.database.outside.do(func() {
		if runs {
			l.w.database.mu.Lock()
			err = l.w.database.setClock(now)
			l.w.database.mu.Unlock()
		}
		if err == nil {
			_, err = l.real.Write(statements)
		}
	})
	if err != nil {
		return 0, err
	}
	if runs && (v == lost || v == lastAfter) {
		l.swallow(v)
	}
	return len(p), nil
}

// swallow waits until the server has replied in full, and cuts the connection.
func (l *link) swallow(v verdict) {
	l.drain()
	if v == lastAfter {
		l.proc.die()
	}
	l.closeReal()
	l.fail(errCut)
}

// ready reports whether what the server sent is complete: its last message says that it waits for the next statement.
func ready(messages []byte) bool {
	last := byte(0)
	for len(messages) >= 5 {
		size := int(binary.BigEndian.Uint32(messages[1:5])) + 1
		if size > len(messages) {
			return false
		}
		last = messages[0]
		messages = messages[size:]
	}
	return last == 'Z' && len(messages) == 0
}

// deliverHeld gives the server a statement that was late. Nobody waits for the reply.
func (l *link) deliverHeld() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	waits := l.cut == nil
	l.verdict = made
	l.mu.Unlock()
	if held == nil {
		return
	}
	now := time.Now()
	l.w.database.outside.do(func() {
		l.w.database.mu.Lock()
		_ = l.w.database.setClock(now) // the statement tells whether the server is well
		l.w.database.mu.Unlock()
		_, _ = l.real.Write(held)
	})
	if waits {
		l.wake() // it was only slow
		return
	}
	l.drain()
	l.closeReal()
}

// drain reads the server's reply to its end, for nobody.
func (l *link) drain() {
	var seen []byte
	for !ready(seen) {
		part, err := l.receive()
		if err != nil {
			return
		}
		seen = append(seen, part...)
	}
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	l.mu.Lock()
	if len(l.read) > 0 {
		n := copy(p, l.read)
		l.read = l.read[n:]
		l.mu.Unlock()
		return n, nil
	}
	cut, held := l.cut, l.held != nil
	l.mu.Unlock()
	if cut != nil {
		return 0, cut
	}
	if held {
		if err := l.wait(); err != nil {
			return 0, err
		}
	}
	part, err := l.receive()
	if err != nil {
		return 0, err
	}
	n := copy(p, part)
	l.mu.Lock()
	l.read = append(l.read, part[n:]...)
	l.mu.Unlock()
	return n, nil
}

// wait ends when what is held has been written, with an error when the deadline comes or the connection ends before.
func (l *link) wait() error {
	for {
		l.mu.Lock()
		cut, deadline, held := l.cut, l.deadline, l.held != nil
		l.mu.Unlock()
		if cut != nil || !held {
			return cut
		}
		if !l.pause(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
}

// pause waits for something to change; false when the deadline has passed.
func (l *link) pause(deadline time.Time) bool {
	var passed <-chan time.Time
	if !deadline.IsZero() {
		if time.Until(deadline) <= 0 {
			return false
		}
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-l.poke:
		return true
	case <-passed:
		return false
	}
}

// glance is how long a look for what Postgres has replied lasts, on the real clock.
const glance = 2 * time.Millisecond

// lookAgain is when a connection that waits for a lock looks again by itself, on the world's clock. Usually another
// step frees the lock, and the world wakes the connection after each. But it may be the world itself that waits, for a
// lock that the server's own cleaning has.
const lookAgain = 10 * time.Millisecond

// copyPatience is how long a COPY waits for a lock, on the real clock. The driver has a goroutine of its own read the
// reply, and waits for that with a mutex, which holds the bubble's clock: the world can't free the lock meanwhile.
const copyPatience = 3 * time.Second

// receive returns what the server has sent. While it waits for a lock, which another step can free, the world goes on.
func (l *link) receive() ([]byte, error) {
	buffer := make([]byte, 16<<10)
	for {
		if l.isClosed() {
			return nil, net.ErrClosed
		}
		n, blocked, err := l.look(buffer)
		if n > 0 {
			return buffer[:n], nil
		}
		if !blocked {
			return nil, err
		}
		l.mu.Lock()
		deadline, copying := l.deadline, l.copying
		l.mu.Unlock()
		if copying {
			l.closeReal()
			return nil, errCut
		}
		l.w.block(l)
		if next := time.Now().Add(lookAgain); deadline.IsZero() || next.Before(deadline) {
			l.pause(next)
		} else if !l.pause(deadline) {
			l.closeReal()
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// look waits for what the server sends, and reports whether it waits for a lock instead.
func (l *link) look(buffer []byte) (n int, blocked bool, err error) {
	l.mu.Lock()
	patience := time.Duration(0)
	if l.copying {
		patience = copyPatience
	}
	l.mu.Unlock()
	l.w.database.outside.do(func() {
		for until := time.Now().Add(patience); ; {
			_ = l.real.SetReadDeadline(time.Now().Add(glance)) // a closed one tells when it is read
			n, err = l.real.Read(buffer)
			if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if blocked = l.isBlocked(); blocked && time.Now().After(until) {
				return
			}
		}
	})
	return n, blocked, err
}

func (l *link) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// isBlocked asks whether the server waits for a lock on behalf of this connection; it runs outside.
func (l *link) isBlocked() bool {
	l.w.database.mu.Lock()
	defer l.w.database.mu.Unlock()
	blocked := false
	err := l.w.database.admin.QueryRow(context.Background(),
		"SELECT coalesce(bool_or(wait_event_type = 'Lock'), false) FROM pg_stat_activity WHERE pid = $1",
		int64(l.pid.Load())).Scan(&blocked)
	return err == nil && blocked
}

// closeReal ends the connection, and waits until the server has given up what it did for it.
func (l *link) closeReal() {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return
	}
	l.w.database.outside.do(func() {
		_ = l.real.Close() // whatever was under way
		if l.pid.Load() == 0 {
			return
		}
		l.w.database.mu.Lock()
		defer l.w.database.mu.Unlock()
		_, _ = l.w.database.admin.Exec(context.Background(), "SELECT pg_terminate_backend($1, 5000)", int64(l.pid.Load())) // it may have ended
	})
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.mu.Lock()
	held := l.held != nil
	l.mu.Unlock()
	if !held { // what is late comes on its way
		l.closeReal()
	}
	l.fail(net.ErrClosed)
	return nil
}

// LocalAddr implements net.Conn.
func (l *link) LocalAddr() net.Addr { return l.real.LocalAddr() }

// RemoteAddr implements net.Conn.
func (l *link) RemoteAddr() net.Addr { return l.real.RemoteAddr() }

// SetDeadline implements net.Conn.
func (l *link) SetDeadline(t time.Time) error {
	l.mu.Lock()
	l.deadline = t
	l.mu.Unlock()
	l.wake()
	return nil
}

// SetReadDeadline implements net.Conn.
func (l *link) SetReadDeadline(t time.Time) error { return l.SetDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (l *link) SetWriteDeadline(time.Time) error { return nil }
