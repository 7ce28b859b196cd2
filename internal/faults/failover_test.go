//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/redistest"
	"github.com/pacer-notify/pacer/internal/testproc"
)

// redirector is an address that leads to one server and then to another, as a fail-over's does.
type redirector struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	open   map[net.Conn]bool
}

func newRedirector(t *testing.T, target string) *redirector {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &redirector{listener: l, target: target, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *redirector) serve(client net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	r.mu.Lock()
	r.open[client], r.open[server] = true, true
	r.mu.Unlock()
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
	_ = client.Close()
}

// lead leads to another server from now on, and ends every connection.
func (r *redirector) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for conn := range r.open {
		_ = conn.Close()
	}
	r.open = map[net.Conn]bool{}
}

func replicate(t *testing.T, replica, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client := replica.Client(t)
	if err := client.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if !eventually(20*time.Second, func() bool {
		return strings.Contains(client.Info(t.Context(), "replication").Val(), "master_link_status:up")
	}) {
		t.Fatal("the replica does not follow")
	}
}

// The replica is cut off from its master while the deployment goes on, and then takes its place: it lacks what was
// accepted since and still has what was delivered since.
func TestFailOverToAReplicaThatWasCutOff(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	replicate(t, replica, master)
	front := newRedirector(t, master.Addr())
	d := deploy(t, 2, options{redisURL: "redis://" + front.listener.Addr().String() + "/0"})
	d.load(d.workers[0], "before", users()/4, each/2)
	d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() > users()/4*6 })
	if err := replica.Client(t).ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	d.load(d.workers[1], "after", users()/4, 5)
	<-time.After(4 * time.Second)
	master.Kill()
	front.lead(replica.Addr())
	v := d.drain(patience)
	t.Log(v)
	if v.lost+v.doubled > 0 {
		t.Error("want none lost, and none that had ended sent again")
	}
}

// sentinels are three of them that watch over a master.
func sentinels(t *testing.T, master *redistest.Server) string {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for range 3 {
		own, err := testproc.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		config := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor pacer %s %s 2\nsentinel down-after-milliseconds pacer 1000\n"+
			"sentinel failover-timeout pacer 10000\n", own, dir, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		process := exec.Command("redis-server", config, "--sentinel")
		process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = process.Process.Kill()
			_ = process.Wait() // killed: never without an error
		})
		addresses = append(addresses, testproc.Addr(own))
	}
	client := redis.NewSentinelClient(&redis.Options{Addr: addresses[0]})
	defer func() { _ = client.Close() }()
	if !eventually(30*time.Second, func() bool {
		state, err := client.Master(t.Context(), "pacer").Result()
		return err == nil && state["num-other-sentinels"] == "2" && state["num-slaves"] == "1"
	}) {
		t.Fatal("the sentinels do not find each other and the replica")
	}
	return strings.Join(addresses, ",")
}

// Sentinels see the master die and promote its replica; the processes follow by themselves.
func TestSentinelFailOver(t *testing.T) {
	master, replica := redistest.Start(t), redistest.Start(t)
	replicate(t, replica, master)
	d := deploy(t, 2, options{redisURL: "redis+sentinel://" + sentinels(t, master) + "/pacer/0"})
	d.load(d.workers[0], "n", users()/4, each/2)
	d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() > users()/4*6 })
	master.Kill()
	start := time.Now()
	<-time.After(500 * time.Millisecond) // what was on its way has arrived
	arrived := len(d.receiver.deliveries())
	d.await("deliveries go on", time.Minute, func() bool { return len(d.receiver.deliveries()) > arrived+50 })
	resumed := time.Since(start)
	v := d.drain(patience)
	t.Logf("%s; deliveries went on %.1f s after the master's death", v, resumed.Seconds())
	if v.lost+v.doubled > 0 {
		t.Error("want none lost, none doubled")
	}
}
