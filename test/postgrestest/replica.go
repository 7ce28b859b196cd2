package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// StartReplica runs a server that follows another over the network, from a copy of its files, and names itself
// "replica". It returns when it answers. Settings are as in Start.
func StartReplica(tb testing.TB, primary *Server, settings ...string) *Server {
	tb.Helper()
	in, err := newReplica(primary.in, settings)
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{tb: tb, in: in}
	tb.Cleanup(func() { s.check(in.remove()) })
	return s
}

func newReplica(primary *instance, settings []string) (_ *instance, err error) {
	dir, err := os.MkdirTemp("", "postgrestest-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for postgres: %w", err)
	}
	in := &instance{bin: primary.bin, dir: dir, args: settings, owner: primary.owner}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err = in.owner.Give(dir); err != nil {
		return nil, err
	}
	proc, err := processtest.Launch(filepath.Join(in.bin, "pg_basebackup"), []string{
		"--pgdata", in.data(), "--write-recovery-conf", "--checkpoint", "fast", "--no-sync",
		"--dbname", fmt.Sprintf("host=%s port=%d user=%s application_name=replica", primary.dir, primary.port, role),
	}, dir, in.logPath(), in.owner)
	if err != nil {
		return nil, err
	}
	<-proc.Done()
	if _, err = os.Stat(filepath.Join(in.data(), "standby.signal")); err != nil {
		return nil, in.failed("pg_basebackup", "made no replica")
	}
	for range processtest.PortAttempts {
		if in.port, err = processtest.FreePort(); err != nil {
			return nil, err
		}
		if err = in.start(); !errors.Is(err, processtest.ErrPortTaken) {
			break
		}
	}
	return in, err
}

// promoteTimeout bounds a promotion on a busy machine.
const promoteTimeout = 90 * time.Second

// Promote makes a replica a server of its own, which can be written to when this returns.
func (s *Server) Promote() {
	s.tb.Helper()
	s.Exec("SELECT pg_promote(false)")
	deadline := time.Now().Add(promoteTimeout)
	for execute(s.URL(), "CREATE TEMPORARY TABLE promoted ()") != nil {
		if time.Now().After(deadline) {
			s.check(errors.New("the replica was not promoted within " + promoteTimeout.String()))
			return
		}
		<-time.After(pollInterval)
	}
}
