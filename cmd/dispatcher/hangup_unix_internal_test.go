//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// A SIGHUP that comes while serve still starts, such as of a reload right after a restart, does not end the
// process. The Redis that says nothing keeps it at its start.
func TestAHangupDuringTheStartEndsNothing(t *testing.T) {
	t.Parallel()
	redis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = redis.Close() }()
	var said bytes.Buffer
	child := exec.CommandContext(t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--ops-listen",
		"127.0.0.1:0", "--redis-url", "redis://"+redis.Addr().String())
	child.Env = append(os.Environ(), asProgram+"=1")
	child.Stdout, child.Stderr = &said, &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = child.Wait()  // it never starts, so it says that it failed
		_ = redis.Close() // nobody will connect any more
	}()
	conn, err := redis.Accept()
	if err != nil {
		<-gone
		t.Fatalf("it does not connect: %v\n%s", err, said.String())
	}
	defer func() { _ = conn.Close() }()
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM} { // the second has it stop
		if err := child.Process.Signal(s); err != nil {
			t.Errorf("send %s: %v", s, err)
		}
	}
	<-gone
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signaled() {
		t.Errorf("%s\n%s", child.ProcessState, said.String())
	}
}

// afterServe makes this test program hang up on itself once serve has returned.
const afterServe = "HANG_UP_AFTER_SERVE"

// A SIGHUP that comes once serve has returned does not change how the process ends: systemd starts one that failed
// again, and not one that a SIGHUP ended.
func TestAHangupAtTheEndChangesNothing(t *testing.T) {
	t.Parallel()
	if os.Getenv(afterServe) != "" {
		hangUpAfterServe(t)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	child.Env = append(os.Environ(), afterServe+"=1")
	if said, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func hangUpAfterServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it does not wait for Redis
	var said bytes.Buffer
	if code := run(ctx, []string{
		"serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0",
		"--redis-url", "redis://127.0.0.1:1",
	}, streams{io.Discard, &said}); code != 2 {
		t.Errorf("serve ended with %d, not with 2 for want of a Redis: %s", code, said.String())
	}
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGUSR1)
	for range 10 { // either signal may arrive first
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Errorf("send %s: %v", s, err)
			}
		}
		<-arrived
	}
}
