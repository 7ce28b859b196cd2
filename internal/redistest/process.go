package redistest

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
const stopTimeout = 10 * time.Second

// process is one run of redis-server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
}

// launch runs binary in dir with its output in the file logPath.
//
// The process is started and awaited on one operating-system thread of its own: the kernel ties the signal that kills
// orphans to the thread that started them, and the Go runtime may end any other thread.
func launch(binary string, args []string, dir, logPath string) (*process, error) {
	out, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("open the log of redis-server: %w", err)
	}
	// No context ends the server: it lives until the clean-ups of its test have run.
	cmd := exec.CommandContext(context.Background(), binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, done: make(chan struct{})}
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

// end sends sig, which must be one that ends the process, and waits until it is gone.
func (p *process) end(sig syscall.Signal) {
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
