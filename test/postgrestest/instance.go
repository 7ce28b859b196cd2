package postgrestest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/test/processtest"
)

const (
	// startTimeout bounds one start of a server, crash recovery included.
	startTimeout = 60 * time.Second
	// pollInterval is the pause between two attempts to reach a server that is starting.
	pollInterval = 10 * time.Millisecond
	// role is the superuser of every server.
	role = "pacer"
)

// errNotInstalled says what a machine lacks, for whoever runs the tests.
var errNotInstalled = errors.New(
	"postgres and initdb are not to be found: install them (apt-get install postgresql) or run make install-servers")

// errStillInUse says that processes of a killed server are still there.
var errStillInUse = errors.New("processes of the killed server hold its memory")

// programs finds the directory with postgres and initdb: that of PATH, or the newest of those where Debian keeps them.
func programs() (string, error) {
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

// instance is one server with its directory, port and arguments. It outlives the process: a killed server is started
// again under the same address. Its methods may be called from any goroutine.
type instance struct {
	bin   string
	dir   string
	port  int
	args  []string
	owner *processtest.Owner

	mu   sync.Mutex
	proc *processtest.Process // nil while the server is down
}

// newInstance makes an empty server with extra arguments, each of the form name=value, and starts it on a free port.
func newInstance(args []string) (*instance, error) { return newInstanceWith(nil, args) }

// newInstanceWith does so with further arguments of initdb.
func newInstanceWith(initdb, args []string) (_ *instance, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	owner, err := processtest.NotRoot("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgrestest-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for postgres: %w", err)
	}
	in := &instance{bin: bin, dir: dir, args: args, owner: owner}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if err = in.initialise(initdb); err != nil {
		return nil, err
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

func (in *instance) data() string { return filepath.Join(in.dir, "data") }

func (in *instance) logPath() string { return filepath.Join(in.dir, "log") }

// initialise makes the server's files.
func (in *instance) initialise(args []string) error {
	if err := in.owner.Give(in.dir); err != nil {
		return err
	}
	proc, err := processtest.Launch(filepath.Join(in.bin, "initdb"), append([]string{
		"--pgdata", in.data(), "--username", role, "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-sync",
	}, args...), in.dir, in.logPath(), in.owner)
	if err != nil {
		return err
	}
	<-proc.Done()
	if _, err := os.Stat(filepath.Join(in.data(), "PG_VERSION")); err != nil {
		return in.failed("initdb", "made no server")
	}
	return nil
}

// start runs the server, which must be down, and returns when it answers.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		return fmt.Errorf("start postgres on port %d: it runs already", in.port)
	}
	args := []string{"-D", in.data(), "-p", strconv.Itoa(in.port), "-k", in.dir}
	for _, setting := range append([]string{"listen_addresses=127.0.0.1", "max_connections=200"}, in.args...) {
		args = append(args, "-c", setting)
	}
	proc, err := processtest.Launch(filepath.Join(in.bin, "postgres"), args, in.dir, in.logPath(), in.owner)
	if err != nil {
		return err
	}
	if err := in.awaitReady(proc); err != nil {
		proc.End(syscall.SIGKILL)
		return err
	}
	in.proc = proc
	return nil
}

// awaitReady returns when the server answers on its socket, which lies in a directory that only this instance knows.
func (in *instance) awaitReady(proc *processtest.Process) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if in.answers() {
			return nil
		}
		select {
		case <-proc.Done():
			out, err := os.ReadFile(in.logPath())
			switch {
			case err == nil && portTaken(out):
				return processtest.ErrPortTaken
			case err == nil && bytes.Contains(out, []byte("is still in use")):
				return errStillInUse
			}
			return in.failed("postgres", "ended at once")
		case <-deadline.C:
			return in.failed("postgres", "does not answer after "+startTimeout.String())
		case <-tick.C:
		}
	}
}

func (in *instance) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=%s dbname=postgres sslmode=disable", in.dir,
		in.port, role))
	if err != nil {
		return false
	}
	return conn.Close(ctx) == nil
}

// failed explains what went wrong with the end of what the program printed.
func (in *instance) failed(program, what string) error {
	out, err := os.ReadFile(in.logPath())
	if err != nil {
		out = []byte(err.Error())
	}
	const most = 2000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return fmt.Errorf("%s %s; its output ends in:\n%s", program, what, out)
}

// restart starts the server again on its old port, after killing it when it still runs. What served the connections of
// a killed server ends by itself a moment later; until then a new one refuses to start.
func (in *instance) restart() error {
	in.end(syscall.SIGKILL)
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * pollInterval)
	defer tick.Stop()
	for {
		err := in.start()
		if !errors.Is(err, errStillInUse) {
			return err
		}
		select {
		case <-deadline.C:
			return err
		case <-tick.C:
		}
	}
}

// end ends the server with sig and returns when the process is gone. A server that is down stays so. Postgres's own
// children end by themselves when their parent is gone; a new start waits for them.
func (in *instance) end(sig syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.End(sig)
		in.proc = nil
	}
}

// remove kills the server and deletes its directory.
func (in *instance) remove() error {
	in.end(syscall.SIGQUIT) // at once, children included
	if err := os.RemoveAll(in.dir); err != nil {
		return fmt.Errorf("remove the directory of postgres: %w", err)
	}
	return nil
}

// url of a database on the server.
func (in *instance) url(database string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", role, processtest.Addr(in.port), database)
}
