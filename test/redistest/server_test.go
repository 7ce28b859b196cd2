package redistest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

func TestStartedServerRespondsAndDoesNotEvict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	want := map[string]string{"maxmemory-policy": "noeviction", "save": "", "appendonly": "no", "bind": "127.0.0.1"}
	got := map[string]string{}
	for name := range want {
		got[name] = config(t, c, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestArgumentsWinOverDefaults(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory-policy", "allkeys-lru", "--databases", "3")
	c := s.Client(t)
	if got := config(t, c, "maxmemory-policy"); got != "allkeys-lru" {
		t.Errorf("maxmemory-policy = %q, want the argument's", got)
	}
	if got := config(t, c, "databases"); got != "3" {
		t.Errorf("databases = %q, want 3", got)
	}
}

func TestStartAcceptsAPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	if err := s.Client(t).Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("PING without the password: %v, want NOAUTH", err)
	}
}

func TestStartExplainsABadArgument(t *testing.T) {
	t.Parallel()
	got := failure(t, func(tb testing.TB) { redistest.Start(tb, "--no-such-setting", "1") })
	if !strings.Contains(got, "start redis-server on 127.0.0.1:") || !strings.Contains(got, "no-such-setting") {
		t.Errorf("message = %q, want the address and the server's own words", got)
	}
}

// No t.Parallel here: the environment belongs to the process.
func TestMissingBinaryFailsTheTest(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got := failure(t, func(tb testing.TB) { redistest.Start(tb) })
	if !strings.Contains(got, "apt-get install redis-server") {
		t.Errorf("message = %q, want what to install", got)
	}
}

func TestURLsReachTheServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	set(t, s.Client(t), "k", "v")
	for _, url := range []string{s.URL(), s.SocketURL()} {
		opt, err := redis.ParseURL(url)
		if err != nil {
			t.Fatalf("parse %s: %v", url, err)
		}
		c := redis.NewClient(opt)
		if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
			t.Errorf("over %s: k = %q, %v", url, got, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestKillAndRestartKeepTheAddress(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	addr := s.Addr()
	set(t, c, "k", "v")

	s.Kill()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server responded")
	}
	s.Kill() // killing twice is legal

	s.Restart()
	if s.Addr() != addr {
		t.Errorf("address after the restart = %s, want %s", s.Addr(), addr)
	}
	if n := size(t, c); n != 0 {
		t.Errorf("%d keys after the restart of a server without persistence", n)
	}
}

func TestRestartOfARunningServerIsANewProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	before := runID(t, c)
	s.Restart()
	if after := runID(t, c); after == before {
		t.Error("the process was not replaced")
	}
}

func TestAppendOnlyFileOutlivesKill(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c := s.Client(t)
	set(t, c, "k", "v")
	s.Kill()
	s.Restart()
	if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("k after the restart = %q, %v", got, err)
	}
}

func TestStopWritesTheSnapshot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--save", "3600 1")
	c := s.Client(t)
	set(t, c, "k", "v")
	s.Stop()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a stopped server responded")
	}
	s.Restart()
	if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("k after a shutdown in good order = %q, %v", got, err)
	}
}

func TestFrozenServerHangsUntilThawed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	set(t, c, "k", "v")

	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.Get(ctx, "k").Err()
	if timeout, ok := errors.AsType[net.Error](err); !errors.Is(err, context.DeadlineExceeded) &&
		(!ok || !timeout.Timeout()) {
		t.Errorf("reading from a frozen server: %v, want a timeout", err)
	}

	s.Thaw()
	if got, err := c.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("k after the thaw = %q, %v", got, err)
	}
}

func TestFrozenServerCanBeKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Freeze()
	s.Kill()
	s.Restart()
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after freeze, kill, restart: %v", err)
	}
}

func TestFreezeOfADeadServerFailsTheTest(t *testing.T) {
	t.Parallel()
	got := failure(t, func(tb testing.TB) {
		s := redistest.Start(tb)
		s.Kill()
		s.Freeze()
	})
	if !strings.Contains(got, "it is down") {
		t.Errorf("message = %q, want that the server is down", got)
	}
}

func TestRestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	squatter, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatalf("occupy the port: %v", err)
	}
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		s.Restart()
	}()
	log := filepath.Join(s.Dir(), "log")
	eventually(t, "the server did not run into the port being taken", func() bool {
		out, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(out), "Address already in use")
	})
	if err := squatter.Close(); err != nil {
		t.Fatal(err)
	}
	<-restarted
	if err := s.Client(t).Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the port was free again: %v", err)
	}
}

func TestServersAreApart(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	if a.Addr() == b.Addr() {
		t.Fatalf("both listen on %s", a.Addr())
	}
	set(t, a.Client(t), "k", "v")
	if n := size(t, b.Client(t)); n != 0 {
		t.Errorf("%d keys of one server in the other", n)
	}
}

//nolint:tparallel // The parent looks at what its subtest leaves.
func TestServerIsGoneAfterItsTest(t *testing.T) {
	t.Parallel()
	var addr string
	t.Run("Owner", func(t *testing.T) {
		addr = redistest.Start(t).Addr()
	})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("the port of a server whose test has ended: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestConfigSetAndFlushAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := s.Client(t)
	s.ConfigSet("maxmemory-policy", "allkeys-random")
	if got := config(t, c, "maxmemory-policy"); got != "allkeys-random" {
		t.Errorf("maxmemory-policy = %q after ConfigSet", got)
	}
	for i := range 3 {
		set(t, c, strconv.Itoa(i), "v")
	}
	s.FlushAll()
	if n := size(t, c); n != 0 {
		t.Errorf("%d keys after FlushAll", n)
	}
}

func TestConfigSetReportsARefusal(t *testing.T) {
	t.Parallel()
	got := failure(t, func(tb testing.TB) { redistest.Start(tb).ConfigSet("no-such-setting", "1") })
	if !strings.Contains(got, "config set no-such-setting on redis-server 127.0.0.1:") {
		t.Errorf("message = %q, want the command and the server", got)
	}
}

// config reads one setting of the server.
func config(t *testing.T, c *redis.Client, name string) string {
	t.Helper()
	values, err := c.ConfigGet(t.Context(), name).Result()
	if err != nil {
		t.Fatalf("config get %s: %v", name, err)
	}
	return values[name]
}

// runID is the random name that a redis-server gives itself at each start.
func runID(t *testing.T, c *redis.Client) string {
	t.Helper()
	info, err := c.InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	id := info["Server"]["run_id"]
	if id == "" {
		t.Fatal("the server has no run_id")
	}
	return id
}

// set writes one string.
func set(t *testing.T, c *redis.Client, key, value string) {
	t.Helper()
	if err := c.Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatalf("set %s: %v", key, err)
	}
}

// size counts the keys of the client's database.
func size(t *testing.T, c *redis.Client) int64 {
	t.Helper()
	n, err := c.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatalf("dbsize: %v", err)
	}
	return n
}

// eventually asks until ok says yes, and fails the test with the complaint after a minute.
func eventually(t *testing.T, complaint string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatal(complaint)
		case <-poll.C:
		}
	}
}
