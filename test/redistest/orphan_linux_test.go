package redistest_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestServerDiesWithTheTestBinary(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), holdServer+"=1", "TMPDIR="+t.TempDir())
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
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the address of the child's server: %v", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // It was killed, which Wait reports as an error.
	eventually(t, "the server of a killed test binary still listens on "+addr, func() bool {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimSpace(addr))
		return err == nil && l.Close() == nil
	})
}
