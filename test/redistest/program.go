package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// errNotInstalled says what a machine lacks, for whoever runs the tests.
var errNotInstalled = errors.New(
	"redis-server is not on PATH: install it (apt-get install redis-server) or run make install-servers")

// program runs redis-server with further arguments. When under is not empty, it names a program, with its arguments,
// that becomes redis-server.
func program(under, args []string) processtest.Program {
	return processtest.Program{
		Name: "redis-server",
		Command: func(dir string, port int) (string, []string, error) {
			binary, err := exec.LookPath("redis-server")
			if err != nil {
				return "", nil, errNotInstalled
			}
			all := append([]string{
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--unixsocket", socket(dir), "--dir", dir,
				"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no",
			}, args...)
			if len(under) == 0 {
				return binary, all, nil
			}
			path, err := exec.LookPath(under[0])
			if err != nil {
				return "", nil, fmt.Errorf("start redis-server under %s: %w", under[0], err)
			}
			return path, slices.Concat(under[1:], []string{binary}, all), nil
		},
		// Redis opens the port before the socket, so the port is its own when the socket responds.
		Ready: func(dir string, _ int) bool { return responds(socket(dir)) },
	}
}

// socket is the path of a server's Unix socket. It lies in the server's own directory, so whatever responds there is
// this server, which cannot be said of a port.
func socket(dir string) string { return filepath.Join(dir, "redis.sock") }

// responds reports whether a Redis on the socket executes commands. One that asks for a password does.
func responds(socket string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
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
