package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of its own, without persistence, on a unix socket.
type server struct {
	url    string
	client *redis.Client
	stop   func()
}

func startRedis(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp("", "pacer-bench")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	process := exec.CommandContext(ctx, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
	if err := process.Start(); err != nil {
		return nil, fmt.Errorf("start redis-server (apt-get install redis-server): %w", err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: 64})
	s := &server{url: "unix://" + socket, client: client, stop: func() {
		_ = client.Close()         // the server ends anyway
		_ = process.Process.Kill() // it may have ended
		_ = process.Wait()         // killed: never without an error
		_ = os.RemoveAll(dir)      // a temporary folder
	}}
	for deadline := time.Now().Add(10 * time.Second); ; {
		if client.Ping(ctx).Err() == nil {
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("redis-server does not answer")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// cpu is how much the server has used.
func (s *server) cpu(ctx context.Context) time.Duration {
	var used time.Duration
	for line := range strings.Lines(s.client.Info(ctx, "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64) // what it says of itself is a number
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}
