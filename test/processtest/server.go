package processtest

import (
	"syscall"
	"testing"
)

// Server is a server of one test, and gone when the test ends. Its methods may be called from any goroutine while the
// test runs; what goes wrong fails the test.
type Server struct {
	TB testing.TB
	*Instance
}

// Start runs a server that belongs to the test. It returns when the server responds.
func Start(tb testing.TB, program Program) *Server {
	tb.Helper()
	in, err := NewInstance(program)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{TB: tb, Instance: in}
	tb.Cleanup(func() { s.Check(in.Remove()) })
	return s
}

// Kill ends the server with SIGKILL, as a crash would: what it has not written to its files is lost. A server that is
// down stays down.
func (s *Server) Kill() {
	s.End(syscall.SIGKILL)
}

// Freeze suspends the server and its children: connections stay open, the kernel accepts new ones, and the server
// responds to nothing.
func (s *Server) Freeze() {
	s.TB.Helper()
	s.Check(s.Signal(syscall.SIGSTOP))
}

// Thaw lets a frozen server go on. It then executes what it was sent meanwhile.
func (s *Server) Thaw() {
	s.TB.Helper()
	s.Check(s.Signal(syscall.SIGCONT))
}

// Restart starts the server again, after killing it when it still runs, with the same address, arguments and directory.
// It returns when the server responds.
func (s *Server) Restart() {
	s.TB.Helper()
	s.Check(s.Instance.Restart())
}

// Check fails the test on an error without ending the goroutine, which need not be the test's.
func (s *Server) Check(err error) {
	s.TB.Helper()
	if err != nil {
		s.TB.Error(err)
	}
}
