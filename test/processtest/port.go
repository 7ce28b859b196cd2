package processtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
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

// FreePort draws a port of 127.0.0.1 that nobody listened on a moment ago, and that it has not given before.
func FreePort() (int, error) {
	var last error
	for range PortAttempts {
		port := firstPort + rand.IntN(portCount)
		if _, before := drawn.LoadOrStore(port, true); before {
			last = ErrPortTaken
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
