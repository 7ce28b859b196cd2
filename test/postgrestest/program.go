package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/processtest"
)

// role is the superuser of every server.
const role = "pacer"

// errNotInstalled says what a machine lacks, for whoever runs the tests.
var errNotInstalled = errors.New(
	"postgres and initdb are not to be found: install them (apt-get install postgresql) or run make install-servers")

// binaries finds the directory with postgres and initdb: that of PATH, or the newest of those where Debian keeps them.
func binaries() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(target), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errNotInstalled
	}
	return filepath.Dir(slices.Max(found)), nil
}

// program runs postgres with settings of the form name=value. Its files come from a program that lies beside postgres,
// with arguments, and made is one that is there when that program succeeded.
func program(settings []string, maker string, args []string, made string) (processtest.Program, error) {
	bin, err := binaries()
	if err != nil {
		return processtest.Program{}, err
	}
	owner, err := processtest.NotRoot("postgres", "nobody")
	if err != nil {
		return processtest.Program{}, err
	}
	return processtest.Program{
		Name: "postgres", Owner: owner, Ready: responds,
		Stop: syscall.SIGQUIT, // at once, children included
		Prepare: func(dir string) error {
			return processtest.Run(filepath.Join(bin, maker),
				append([]string{"--pgdata", data(dir), "--no-sync"}, args...),
				dir, owner, filepath.Join(data(dir), made))
		},
		Command: func(dir string, port int) (string, []string, error) {
			all := []string{"-D", data(dir), "-p", strconv.Itoa(port), "-k", dir}
			for _, setting := range append([]string{"listen_addresses=127.0.0.1", "max_connections=200"}, settings...) {
				all = append(all, "-c", setting)
			}
			return filepath.Join(bin, "postgres"), all, nil
		},
	}, nil
}

// empty runs an empty server, made by initdb with further arguments.
func empty(initdb, settings []string) (processtest.Program, error) {
	return program(settings, "initdb",
		append([]string{"--username", role, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"}, initdb...),
		"PG_VERSION")
}

// replica runs a server that follows another from a copy of its files.
func replica(primary *Server, settings []string) (processtest.Program, error) {
	return program(settings, "pg_basebackup", []string{
		"--write-recovery-conf", "--checkpoint", "fast", "--dbname",
		fmt.Sprintf("host=%s port=%d user=%s application_name=replica", primary.Dir(), primary.Port(), role),
	}, "standby.signal")
}

// data is the folder of the server's files in its directory.
func data(dir string) string { return filepath.Join(dir, "data") }

// responds reports whether a server accepts connections on its socket, which lies in the server's own directory.
func responds(dir string, port int) bool {
	return reachable(fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", dir, port, role),
		time.Second)
}

// reachable reports whether a database accepts connections.
func reachable(address string, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// databaseURL of a database on a server.
func databaseURL(in *processtest.Instance, database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", role, in.Addr(), database)
}
