package processtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds one start of a server, crash recovery included.
	startTimeout = 3 * time.Minute
	// pollInterval is the pause between two attempts to reach a server that is starting.
	pollInterval = 5 * time.Millisecond
	// retryInterval is the pause between two attempts to start a server whose port or memory is still in use.
	retryInterval = 100 * time.Millisecond
)

// errInUse says that something which a server needs is taken for the moment: its port, by another process, or its
// shared memory, by children of a killed server that have not ended yet.
var errInUse = errors.New("its port or its memory is in use")

// Program says how to run one kind of server.
type Program struct {
	// Name stands in messages and in the name of the directory.
	Name string
	// Owner is the user that the server runs as; nil is whoever runs the tests.
	Owner *Owner
	// Prepare makes the files of a new server in its directory. It may be nil.
	Prepare func(dir string) error
	// Command is the program that serves the port, with its arguments. It is called before each start.
	Command func(dir string, port int) (binary string, args []string, err error)
	// Ready reports whether the server on the port responds. Only the server itself may make it true, and not another
	// one that happens to have the port.
	Ready func(dir string, port int) bool
	// Memory has the server's files kept in memory if there is room: for servers that many tests share, whose data need
	// not be as slow to write as in production.
	Memory bool
	// Stop ends the server at once with all its processes; 0 is SIGKILL.
	Stop syscall.Signal
}

// Instance is one server with its directory and port. It outlives the process: a killed server is started again under
// the same address. Its methods may be called from any goroutine.
type Instance struct {
	program Program
	dir     *Dir
	port    int

	mu   sync.Mutex
	proc *Process // nil while the server is down
}

// NewInstance starts a server on a free port and waits until it responds.
func NewInstance(program Program) (_ *Instance, err error) {
	makeDir := NewDir
	if program.Memory {
		makeDir = newMemoryDir
	}
	dir, err := makeDir(program.Name)
	if err != nil {
		return nil, err
	}
	in := &Instance{program: program, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove())
		}
	}()
	if err := program.Owner.Give(dir.Path); err != nil {
		return nil, err
	}
	if program.Prepare != nil {
		if err := program.Prepare(dir.Path); err != nil {
			return nil, err
		}
	}
	for range PortAttempts {
		if in.port, err = FreePort(); err != nil {
			return nil, err
		}
		if err = in.start(); !errors.Is(err, errInUse) {
			break
		}
	}
	return in, err
}

// Dir is where the server keeps its files.
func (in *Instance) Dir() string { return in.dir.Path }

// LogPath is the file that gets the server's output. Each start empties it.
func (in *Instance) LogPath() string { return logPath(in.dir.Path) }

func logPath(dir string) string { return filepath.Join(dir, "log") }

// Port is the server's. It stays the same over a restart.
func (in *Instance) Port() int { return in.port }

// Addr is the TCP address, as in 127.0.0.1:23456.
func (in *Instance) Addr() string { return Addr(in.port) }

// start runs the server, which must be down, and returns when it responds. The error is errInUse when a later attempt
// may succeed.
func (in *Instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		return fmt.Errorf("start %s on %s: it runs already", in.program.Name, in.Addr())
	}
	binary, args, err := in.program.Command(in.dir.Path, in.port)
	if err != nil {
		return err
	}
	proc, err := Launch(binary, args, in.dir.Path, in.LogPath(), in.program.Owner)
	if err != nil {
		return err
	}
	if err := in.awaitReady(proc); err != nil {
		proc.End(syscall.SIGKILL)
		return fmt.Errorf("start %s on %s: %w", in.program.Name, in.Addr(), err)
	}
	in.proc = proc
	return nil
}

func (in *Instance) awaitReady(proc *Process) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		if in.program.Ready(in.dir.Path, in.port) {
			return nil
		}
		select {
		case <-proc.Done():
			return failure(in.dir.Path, "it ended at once")
		case <-deadline.C:
			return failure(in.dir.Path, "it does not respond after "+startTimeout.String())
		case <-poll.C:
		}
	}
}

// failure explains what went wrong with the end of what the program printed.
func failure(dir, what string) error {
	out, err := os.ReadFile(logPath(dir))
	if err != nil {
		out = []byte(err.Error())
	}
	cause := errors.New(what)
	if bytes.Contains(out, []byte("Address already in use")) || bytes.Contains(out, []byte("is still in use")) {
		cause = errInUse
	}
	const most = 2000
	return fmt.Errorf("%w; its output ends in:\n%s", cause, out[max(0, len(out)-most):])
}

// Restart starts the server again on its old port, after killing it when it still runs. While its port or its memory is
// in use, Restart tries again until startTimeout has passed.
func (in *Instance) Restart() error {
	in.End(syscall.SIGKILL)
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		err := in.start()
		if !errors.Is(err, errInUse) {
			return err
		}
		select {
		case <-deadline.C:
			return err
		case <-retry.C:
		}
	}
}

// PIDs are the process numbers of the running server and, after it, of its children. There are none while it is down.
func (in *Instance) PIDs() []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return nil
	}
	parent := in.proc.PID()
	return append([]int{parent}, children(parent)...)
}

// children of a process, as far as the system tells.
func children(parent int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent)) // a constant pattern
	var pids []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Signal sends sig to the running server and its children.
func (in *Instance) Signal(sig syscall.Signal) error {
	pids := in.PIDs()
	if len(pids) == 0 {
		return fmt.Errorf("send %v to %s on %s: it is down", sig, in.program.Name, in.Addr())
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("send %v to %s on %s: %w", sig, in.program.Name, in.Addr(), err)
		}
	}
	return nil
}

// End ends the server with sig and returns when the process is gone. A server that is down stays so. Its children end
// by themselves when their parent is gone.
func (in *Instance) End(sig syscall.Signal) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.End(sig)
		in.proc = nil
	}
}

// Remove ends the server at once and deletes its directory.
func (in *Instance) Remove() error {
	stop := in.program.Stop
	if stop == 0 {
		stop = syscall.SIGKILL
	}
	in.End(stop)
	return in.dir.Remove()
}

// Run runs a program that makes the files of a server, and reports a failure when the file made is not there at its
// end.
func Run(binary string, args []string, dir string, owner *Owner, made string) error {
	proc, err := Launch(binary, args, dir, logPath(dir), owner)
	if err != nil {
		return err
	}
	<-proc.Done()
	if _, err := os.Stat(made); err != nil {
		return failure(dir, filepath.Base(binary)+" made no server")
	}
	return nil
}
