package redistest

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// adminTimeout bounds the commands that this package sends for itself.
const adminTimeout = 10 * time.Second

// Server is a redis-server of one test. Its methods may be called from any goroutine while the test runs; what goes
// wrong fails the test.
type Server struct {
	tb testing.TB
	in *instance
	// stops counts what kept the server from answering: each freeze, thaw, kill, stop and restart.
	stops atomic.Int64
}

// Start runs a redis-server that belongs to the test and is gone when the test ends. It returns when the server
// answers. The arguments are those of redis-server and win over the defaults of this package, for example
// "--appendonly", "yes".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	in, err := newInstance(args)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, in: in}
	tb.Cleanup(func() { s.check(in.remove()) })
	return s
}

// StartUnder runs a redis-server as Start does, through a program that changes its surroundings and then becomes it,
// for example "env", "LD_PRELOAD=...".
func StartUnder(tb testing.TB, under []string, args ...string) *Server {
	tb.Helper()
	in, err := newInstanceUnder(under, args)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, in: in}
	tb.Cleanup(func() { s.check(in.remove()) })
	return s
}

// PID is the process number of the running server, 0 while it is down.
func (s *Server) PID() int {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	if s.in.proc == nil {
		return 0
	}
	return s.in.proc.PID()
}

// Dir is where the server keeps its files.
func (s *Server) Dir() string { return s.in.dir }

// Addr is the TCP address, as in 127.0.0.1:23456. It stays the same over a restart.
func (s *Server) Addr() string { return addr(s.in.port) }

// URL is the TCP address as a URL with database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// SocketURL is the server's Unix socket as a URL with database 0.
func (s *Server) SocketURL() string { return "unix://" + s.in.socket() + "?db=0" }

// Client returns a client on database 0 that is closed when t ends. It answers within its context even while the
// server is frozen.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, s.Addr(), 0)
}

// Kill ends the server with SIGKILL: what it has not written to its append-only file is lost. A server that is down
// stays down.
func (s *Server) Kill() {
	s.stops.Add(1)
	s.in.end(syscall.SIGKILL)
}

// Stop ends the server in good order (SIGTERM). A frozen server must be thawed first; else it is killed after 10 s.
func (s *Server) Stop() {
	s.stops.Add(1)
	s.in.end(syscall.SIGTERM)
}

// Freeze suspends the server: connections stay open, new ones are accepted by the kernel, and nothing is answered.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.stops.Add(1)
	s.check(s.in.signal(syscall.SIGSTOP))
}

// Thaw lets a frozen server go on. It then executes what it was sent meanwhile.
func (s *Server) Thaw() {
	s.tb.Helper()
	s.stops.Add(1)
	s.check(s.in.signal(syscall.SIGCONT))
}

// Restart starts the server again, after killing it when it still runs, with the same address, arguments and
// directory: it is empty unless the arguments make it persistent. It returns when the server answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.stops.Add(1)
	s.check(s.in.restart())
}

// ConfigSet changes one setting of the running server. A restart forgets it.
func (s *Server) ConfigSet(name, value string) {
	s.tb.Helper()
	s.admin("config set "+name, func(ctx context.Context, c *redis.Client) error {
		return c.ConfigSet(ctx, name, value).Err()
	})
}

// FlushAll removes every key of every database.
func (s *Server) FlushAll() {
	s.tb.Helper()
	s.admin("flushall", func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// admin runs one command on a connection of its own. It works in clean-ups too, where the test's context has ended.
func (s *Server) admin(what string, do func(context.Context, *redis.Client) error) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.tb.Context()), adminTimeout)
	defer cancel()
	c := redis.NewClient(options(s.Addr(), 0))
	defer func() { s.check(c.Close()) }()
	if err := do(ctx, c); err != nil {
		s.tb.Errorf("%s on redis-server %s: %v", what, s.Addr(), err)
	}
}

// check fails the test on an error without ending the goroutine, which need not be the test's.
func (s *Server) check(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Error(err)
	}
}
