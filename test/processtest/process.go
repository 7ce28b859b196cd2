// Package processtest runs the servers that tests need, as processes of their own, on free ports, and makes sure that
// neither a server nor its directory outlives the test. Packages redistest and postgrestest build on it.
//
// A [Program] says how one kind of server is run, an [Instance] is one that runs, a [Server] belongs to one test, and a
// [Shared] server to all tests of a binary. [NewDir] makes the directories of all of them.
package processtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// stopTimeout bounds a graceful shutdown; after it the process is killed.
const stopTimeout = time.Minute

// Process is one run of a server.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends sig.
func (p *Process) Signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// Launch runs binary in dir with its output in the file logPath, as owner unless that is nil.
//
// The process is started and awaited on one operating-system thread of its own: the kernel ties the signal that kills
// orphans to the thread that started them, and the Go runtime may end any other thread.
func Launch(binary string, args []string, dir, logPath string, owner *Owner) (*Process, error) {
	out, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", binary, err)
	}
	// No context ends the server: it lives until the clean-ups of its test have run.
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = owner.attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer func() { _ = out.Close() }() // The child writes through its own descriptor.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // How a server that tests kill ends says nothing.
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("run %s: %w", binary, err)
	}
	return p, nil
}

// End sends sig, which must be one that ends the process, and waits until it is gone.
func (p *Process) End(sig syscall.Signal) {
	_ = p.cmd.Process.Signal(sig) // An error means that it is gone already.
	patience := time.NewTimer(stopTimeout)
	defer patience.Stop()
	select {
	case <-p.done:
	case <-patience.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
