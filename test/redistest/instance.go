package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

const (
	// startTimeout bounds one start of redis-server, loading of its append-only file included.
	startTimeout = 30 * time.Second
	// pollInterval is the pause between two attempts to reach a server that is starting.
	pollInterval = 5 * time.Millisecond
)

// errNotInstalled says what a machine lacks, for whoever runs the tests.
var errNotInstalled = errors.New(
	"redis-server is not on PATH: install it (apt-get install redis-server) or run make install-servers")

// instance is one redis-server with its directory, port and arguments. It outlives the process: a killed server is
// started again under the same address. Its methods may be called from any goroutine.
type instance struct {
	binary string
	dir    string
	port   int
	args   []string
	under  []string // what becomes the server, with its arguments; empty for the server itself

	mu   sync.Mutex
	proc *processtest.Process // nil while the server is down
}

// newInstance starts a redis-server with the extra arguments args on a free port and waits until it answers.
func newInstance(args []string) (*instance, error) { return newInstanceUnder(nil, args) }

// newInstanceUnder does so through a program, given with its arguments, that becomes redis-server.
func newInstanceUnder(under, args []string) (*instance, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNotInstalled
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	in := &instance{binary: binary, under: under, dir: dir, args: args}
	for range processtest.PortAttempts {
		if in.port, err = processtest.FreePort(); err != nil {
			break
		}
		if err = in.start(); !errors.Is(err, processtest.ErrPortTaken) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return in, nil
}

// addr is host and port of a server on the loopback interface.
func addr(port int) string { return processtest.Addr(port) }

// socket is the path of the server's Unix socket. It lies in a directory that only this instance knows, so whoever
// answers there is this server, which cannot be said of a port.
func (in *instance) socket() string { return filepath.Join(in.dir, "redis.sock") }

// logPath is the file that gets the server's output.
func (in *instance) logPath() string { return filepath.Join(in.dir, "redis.log") }

// start runs the server, which must be down, and returns when it answers. The error is [processtest.ErrPortTaken] when
// somebody else listens on the port.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		return fmt.Errorf("start redis-server on %s: it runs already", addr(in.port))
	}
	args := append([]string{
		"--port", strconv.Itoa(in.port), "--bind", "127.0.0.1", "--unixsocket", in.socket(), "--dir", in.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no",
	}, in.args...)
	// A killed server leaves its socket behind, and an old log would hide why a new start went wrong.
	for _, stale := range []string{in.socket(), in.logPath()} {
		if err := os.Remove(stale); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("clean up before the start of redis-server: %w", err)
		}
	}
	binary := in.binary
	if len(in.under) > 0 {
		path, err := exec.LookPath(in.under[0])
		if err != nil {
			return fmt.Errorf("start redis-server under %s: %w", in.under[0], err)
		}
		binary, args = path, slices.Concat(in.under[1:], []string{in.binary}, args)
	}
	proc, err := processtest.Launch(binary, args, in.dir, in.logPath(), nil)
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

// awaitReady returns when the server answers on its socket. Redis opens the port first, so the port is its own by then.
func (in *instance) awaitReady(proc *processtest.Process) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if answers(in.socket()) {
			return nil
		}
		select {
		case <-proc.Done():
			return in.startError("ended at once")
		case <-deadline.C:
			return in.startError("does not answer after " + startTimeout.String())
		case <-tick.C:
		}
	}
}

// answers tells whether a Redis on the socket path executes commands. One that asks for a password does.
func answers(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // Nothing was written that closing could lose.
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	return err == nil && (bytes.HasPrefix(reply[:n], []byte("+PONG")) || bytes.HasPrefix(reply[:n], []byte("-NOAUTH")))
}

// startError explains a failed start with the end of what the server printed.
func (in *instance) startError(what string) error {
	out, err := os.ReadFile(in.logPath())
	if err != nil {
		out = []byte(err.Error())
	}
	const most = 2000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	cause := errors.New(what)
	if bytes.Contains(out, []byte("Address already in use")) {
		cause = processtest.ErrPortTaken
	}
	return fmt.Errorf("start redis-server on %s: %w; its output ends in:\n%s", addr(in.port), cause, out)
}

// restart starts the server again on its old port, after killing it when it still runs. A port that somebody else
// took meanwhile is asked for until startTimeout has passed.
func (in *instance) restart() error {
	in.end(syscall.SIGKILL)
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(20 * pollInterval)
	defer tick.Stop()
	for {
		err := in.start()
		if !errors.Is(err, processtest.ErrPortTaken) {
			return err
		}
		select {
		case <-deadline.C:
			return err
		case <-tick.C:
		}
	}
}

// signal sends sig to the running server.
func (in *instance) signal(sig syscall.Signal) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return fmt.Errorf("send %v to redis-server on %s: it is down", sig, addr(in.port))
	}
	if err := in.proc.Signal(sig); err != nil {
		return fmt.Errorf("send %v to redis-server on %s: %w", sig, addr(in.port), err)
	}
	return nil
}

// end ends the server with sig and returns when the process is gone. A server that is down stays so.
func (in *instance) end(sig syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return
	}
	in.proc.End(sig)
	in.proc = nil
}

// remove kills the server and deletes its directory.
func (in *instance) remove() error {
	in.end(syscall.SIGKILL)
	if err := os.RemoveAll(in.dir); err != nil {
		return fmt.Errorf("remove the directory of redis-server: %w", err)
	}
	return nil
}
