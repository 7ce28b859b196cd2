package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/migrations"
	"github.com/pacer-notify/pacer/test/processtest"
)

// adminTimeout bounds the statements that this package sends for itself.
const adminTimeout = 2 * time.Minute

// Server is a Postgres server of one test, with an empty database. Its methods may be called from any goroutine while
// the test runs; what goes wrong fails the test.
type Server struct{ *processtest.Server }

// Start runs a server that belongs to the test and is gone when the test ends. Settings are of the form name=value and
// win over the defaults.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return StartWith(tb, nil, settings...)
}

// StartWith does what Start does, with further arguments of initdb.
func StartWith(tb testing.TB, initdb []string, settings ...string) *Server {
	tb.Helper()
	program, err := empty(initdb, settings)
	if err != nil {
		tb.Fatal(err)
	}
	return &Server{processtest.Start(tb, program)}
}

// StartUnowned runs a server with an empty database "postgres" of the current schema for a program that is no test. It
// runs until stop is called, and no longer than the program.
func StartUnowned(settings ...string) (url string, stop func() error, err error) {
	program, err := empty(nil, settings)
	if err != nil {
		return "", nil, err
	}
	in, err := processtest.NewInstance(program)
	if err != nil {
		return "", nil, err
	}
	url = databaseURL(in, "postgres")
	if err := migrate(url); err != nil {
		return "", nil, errors.Join(err, in.Remove())
	}
	return url, in.Remove, nil
}

// URL is the server's database "postgres", without a schema of ours.
func (s *Server) URL() string { return databaseURL(s.Instance, "postgres") }

// Data is the directory with the server's files.
func (s *Server) Data() string { return data(s.Dir()) }

// Exec runs one statement in the server's database.
func (s *Server) Exec(statement string) {
	s.TB.Helper()
	s.Check(execute(s.URL(), statement))
}

// Migrate returns the server's database the current schema.
func (s *Server) Migrate() {
	s.TB.Helper()
	s.Check(migrate(s.URL()))
}

func migrate(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return migrations.Up(ctx, url)
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

// Snapshot copies the server's files, as a snapshot of its disk does. restore gives the server these files, while it is
// down, and starts it with them.
func (s *Server) Snapshot() (restore func()) {
	s.TB.Helper()
	kept := s.Data() + ".snapshot"
	s.Kill()
	s.Check(exec.CommandContext(s.TB.Context(), "cp", "-a", s.Data(), kept).Run())
	s.Restart()
	return func() {
		s.TB.Helper()
		s.Kill()
		s.Check(os.RemoveAll(s.Data()))
		s.Check(os.Rename(kept, s.Data()))
		s.Restart()
	}
}

// Tools is the folder with the programs that come with Postgres, such as pg_dump.
func Tools(tb testing.TB) string {
	tb.Helper()
	bin, err := binaries()
	if err != nil {
		tb.Fatal(err)
	}
	return bin
}
