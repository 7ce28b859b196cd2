package embedded_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/nettest"

	"github.com/pacer-notify/pacer/internal/embedded"
)

// A pipeline is written whole before its first reply is read, and the server writes a reply before it reads on. So both
// would wait for each other for ever over a connection that holds less than the replies.
func TestPipelinesOfAnySize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ commands, request, reply int }{
		"10,000 small commands":              {commands: 10_000, request: 8, reply: 8},
		"10,000 commands with large replies": {commands: 10_000, request: 8, reply: 4096},
		"10,000 large commands":              {commands: 10_000, request: 4096, reply: 8},
		"few, each larger than any buffer":   {commands: 8, request: 4 << 20, reply: 4 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := start(t).Client()
			reply, request := strings.Repeat("r", c.reply), strings.Repeat("q", c.request)
			if err := client.Set(t.Context(), "reply", reply, 0).Err(); err != nil {
				t.Fatal(err)
			}
			pipe := client.Pipeline()
			asked, set := make([]*redis.StringCmd, c.commands), make([]*redis.StatusCmd, c.commands)
			for i := range asked {
				set[i], asked[i] = pipe.Set(t.Context(), "request", request, 0), pipe.Get(t.Context(), "reply")
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i := range asked {
				if set[i].Val() != "OK" || asked[i].Val() != reply {
					t.Fatalf("command %d got %q and %d bytes, want %d", i, set[i].Val(), len(asked[i].Val()),
						len(reply))
				}
			}
		})
	}
}

// Many callers with a connection of their own, each with pipelines, at once.
func TestPipelinesSideBySide(t *testing.T) {
	t.Parallel()
	client := start(t).Client()
	const callers, each = 16, 500
	reply := strings.Repeat("r", 1000)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			pipe := client.Pipeline()
			for range each {
				pipe.Echo(t.Context(), reply)
			}
			replies, err := pipe.Exec(t.Context())
			if err != nil || len(replies) != each {
				t.Errorf("%d replies, %v", len(replies), err)
			}
		})
	}
	all.Wait()
}

// The connection is what the net package says of connections: deadlines, closing, many goroutines.
func TestPipeIsAConnection(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2 = embedded.Pipe()
		return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, nil
	})
}
