package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/redistest"
)

// holdServer is the environment variable that turns this binary into a process which holds a server until it dies.
const holdServer = "REDISTEST_HOLD_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(holdServer) != "" {
		os.Exit(hold())
	}
	redistest.Main(m)
}

// hold starts a server, prints its socket and waits for the end of standard input.
func hold() int {
	url, _, err := redistest.StartUnowned()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(strings.TrimPrefix(url, "unix://"))
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // Its end is what matters.
	return 0
}
