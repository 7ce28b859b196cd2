package redistest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/processtest"
)

const (
	// adminTimeout bounds the commands that this package sends for itself.
	adminTimeout = time.Minute
	// clusterTimeout bounds the forming of a cluster.
	clusterTimeout = 2 * time.Minute
)

// Server is a redis-server of one test. Its methods may be called from any goroutine while the test runs; what goes
// wrong fails the test. After a restart it is empty unless its arguments make it persistent.
type Server struct{ *processtest.Server }

// Start runs a redis-server that belongs to the test and is gone when the test ends. It returns when the server
// responds. The arguments are those of redis-server and win over the defaults of this package, for example
// "--appendonly", "yes".
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return StartUnder(tb, nil, args...)
}

// StartUnder runs a redis-server as Start does, through a program that changes its surroundings and then becomes it,
// for example "env", "LD_PRELOAD=...".
func StartUnder(tb testing.TB, under []string, args ...string) *Server {
	tb.Helper()
	return &Server{processtest.Start(tb, program(under, args))}
}

// StartUnowned runs a redis-server for a program that is no test, and returns the URL of its Unix socket. The server
// runs until stop is called, and no longer than the program.
func StartUnowned(args ...string) (url string, stop func() error, err error) {
	in, err := processtest.NewInstance(program(nil, args))
	if err != nil {
		return "", nil, err
	}
	return "unix://" + socket(in.Dir()), in.Remove, nil
}

// URL is the TCP address as a URL with database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Client returns a client on database 0 that is closed when t ends. It returns within its context even while the server
// is frozen.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return newClient(t, s.Addr(), 0)
}

// PID is the process number of the running server, 0 while it is down.
func (s *Server) PID() int {
	if pids := s.PIDs(); len(pids) > 0 {
		return pids[0]
	}
	return 0
}

// ConfigSet changes one setting of the running server. A restart forgets it.
func (s *Server) ConfigSet(name, value string) {
	s.TB.Helper()
	s.admin("config set "+name, func(ctx context.Context, c *redis.Client) error {
		return c.ConfigSet(ctx, name, value).Err()
	})
}

// FlushAll removes every key of every database.
func (s *Server) FlushAll() {
	s.TB.Helper()
	s.admin("flushall", func(ctx context.Context, c *redis.Client) error { return c.FlushAll(ctx).Err() })
}

// SlowestScript is how long the slowest script took of those that Redis remembers by its own settings: since its start,
// 10 ms or more. It is 0 without one.
func (s *Server) SlowestScript() time.Duration {
	s.TB.Helper()
	var slowest time.Duration
	s.admin("slowlog get", func(ctx context.Context, c *redis.Client) error {
		slow, err := c.SlowLogGet(ctx, -1).Result()
		for _, command := range slow {
			if strings.HasPrefix(strings.ToLower(command.Args[0]), "eval") {
				slowest = max(slowest, command.Duration)
			}
		}
		return err
	})
	return slowest
}

// admin runs one command on a connection of its own. It works in clean-ups too, where the test's context has ended.
func (s *Server) admin(what string, do func(context.Context, *redis.Client) error) {
	s.TB.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.TB.Context()), adminTimeout)
	defer cancel()
	c := redis.NewClient(options(s.Addr(), 0))
	defer func() { s.Check(c.Close()) }()
	if err := do(ctx, c); err != nil {
		s.TB.Errorf("%s on redis-server %s: %v", what, s.Addr(), err)
	}
}
