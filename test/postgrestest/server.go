package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/processtest"
)

// adminTimeout bounds the statements that this package sends for itself.
const adminTimeout = 30 * time.Second

// portTaken tells whether a server ended because somebody else listens on its port.
func portTaken(log []byte) bool { return bytes.Contains(log, []byte("Address already in use")) }

// Server is a Postgres server of one test, with an empty database. Its methods may be called from any goroutine while
// the test runs; what goes wrong fails the test.
type Server struct {
	tb testing.TB
	in *instance
	// stops counts what kept the server from answering: each freeze, thaw, kill and restart.
	stops atomic.Int64
}

// Start runs a server that belongs to the test and is gone when the test ends. Settings are of the form name=value and
// win over the defaults.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return StartWith(tb, nil, settings...)
}

// StartWith does what Start does, with further arguments of initdb.
func StartWith(tb testing.TB, initdb []string, settings ...string) *Server {
	tb.Helper()
	in, err := newInstanceWith(initdb, settings)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, in: in}
	tb.Cleanup(func() { s.check(in.remove()) })
	return s
}

// URL is the server's database "postgres", without a schema of ours.
func (s *Server) URL() string { return s.in.url("postgres") }

// Kill ends the server at once, as a crash would, with all that serves its connections.
func (s *Server) Kill() {
	s.stops.Add(1)
	s.in.end(syscall.SIGKILL)
}

// Restart starts the server again, after killing it when it still runs, with the same address and data. It returns when
// the server answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.stops.Add(1)
	s.check(s.in.restart())
}

// Freeze suspends the server and all that serves its connections: they stay open and nothing is answered.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.stops.Add(1)
	s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.tb.Helper()
	s.stops.Add(1)
	s.signal(syscall.SIGCONT)
}

// signal reaches the server and its children, one of which serves each connection.
func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	for _, pid := range s.PIDs() {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			s.check(fmt.Errorf("send %v to postgres: %w", sig, err))
		}
	}
}

// PIDs are the process numbers of the running server and, after it, of its children.
func (s *Server) PIDs() []int {
	s.tb.Helper()
	text, err := os.ReadFile(filepath.Join(s.in.data(), "postmaster.pid"))
	if err != nil {
		s.check(fmt.Errorf("find the processes of postgres: it is down: %w", err))
		return nil
	}
	first, _, _ := strings.Cut(string(text), "\n")
	parent, err := strconv.Atoi(first)
	if err != nil {
		s.check(fmt.Errorf("read the process number of postgres: %w", err))
		return nil
	}
	return append([]int{parent}, children(parent)...)
}

// Addr is the TCP address. It stays the same over a restart.
func (s *Server) Addr() string { return processtest.Addr(s.in.port) }

// Data is the directory with the server's files.
func (s *Server) Data() string { return s.in.data() }

// children of a process, as far as the system tells.
func children(parent int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) // a constant pattern
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Exec runs one statement in the server's database.
func (s *Server) Exec(statement string) {
	s.tb.Helper()
	s.check(execute(s.URL(), statement))
}

func execute(url, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the test's postgres: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the statement below tells whether the server is well
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("run %q: %w", statement, err)
	}
	return nil
}

// check fails the test on an error without ending the goroutine, which need not be the test's.
func (s *Server) check(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Error(err)
	}
}

// Migrate gives the server's database the current schema.
func (s *Server) Migrate() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	s.check(migrations.Up(ctx, s.URL()))
}

// StartUnowned runs a server with an empty database "postgres" of the current schema for a program that is no test. It
// runs until stop is called, and no longer than the program.
func StartUnowned(settings ...string) (url string, stop func() error, err error) {
	in, err := newInstance(settings)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if err := migrations.Up(ctx, in.url("postgres")); err != nil {
		return "", nil, errors.Join(err, in.remove())
	}
	return in.url("postgres"), in.remove, nil
}
