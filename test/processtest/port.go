package processtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

const (
	// PortAttempts is how many ports are worth trying before a start is given up.
	PortAttempts = 20
	// Ports are drawn from below the range that systems hand to outgoing connections, so that a server which is
	// down for a moment finds its port free again.
	firstPort, portCount = 20000, 12000
)

// ErrPortTaken says that another process listens on the port of a server.
var ErrPortTaken = errors.New("the port is taken")

// drawn are the ports that this process was given: nobody may listen on one yet, and two must not get the same.
var drawn sync.Map

// claims is a file in which each program that tests, of all on this machine, locks the byte of each port that it was
// given. The kernel drops a program's locks when it ends.
var claims = sync.OnceValues(func() (*os.File, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("pacer-test-ports-%d", os.Getuid()))
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
})

// claim keeps a port for this program. It returns ErrPortTaken when it is another's.
func claim(port int) error {
	file, err := claims()
	if err != nil {
		return fmt.Errorf("open the file of the ports in use: %w", err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: int64(port), Len: 1}
	err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &lock)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return ErrPortTaken
	}
	return err
}

// FreePort draws a port of 127.0.0.1 that nobody listened on a moment ago, and that no program that tests was given.
func FreePort() (int, error) {
	var last error
	for range PortAttempts {
		port := firstPort + rand.IntN(portCount)
		if _, before := drawn.LoadOrStore(port, true); before {
			last = ErrPortTaken
			continue
		}
		if last = claim(port); last != nil {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", Addr(port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

// Addr is host and port of a server on the loopback interface.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
