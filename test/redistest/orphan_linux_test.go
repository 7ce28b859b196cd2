package redistest_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestServerDiesWithTheTestBinary(t *testing.T) {
	t.Parallel()
	socket := killHolder(t, t.TempDir())
	eventually(t, "the server of a killed test binary still listens on "+socket, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err == nil {
			_ = conn.Close() // nothing was written
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// The next test binary removes what a killed one left. The name is short because the path of a Unix socket has to be.
func TestNextServerRemovesLeftovers(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	killHolder(t, temp)
	left := directories(t, temp)
	if len(left) != 1 {
		t.Fatalf("the first test binary left %q, want one directory", left)
	}
	killHolder(t, temp)
	if now := directories(t, temp); len(now) != 1 || now[0] == left[0] {
		t.Errorf("after the second test binary there are %q, want that of the second alone", now)
	}
}

// directories are those in temp, beside the file of the ports.
func directories(t *testing.T, temp string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// killHolder runs another test binary, whose temporary directory is temp, kills it while it holds a server, and returns
// the server's socket.
func killHolder(t *testing.T, temp string) (socket string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), holdServer+"=1", "TMPDIR="+temp)
	child.Stderr = os.Stderr
	if _, err := child.StdinPipe(); err != nil { // never closed, so the child waits for its death
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	socket, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the socket of the child's server: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // It was killed, which Wait reports as an error.
	return strings.TrimSpace(socket)
}
