package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/redistest"
)

// server is a redis-server of its own, without persistence, on a unix socket.
type server struct {
	url    string
	socket string
	client *redis.Client
	stop   func()
}

func startRedis() (*server, error) {
	url, stop, err := redistest.StartUnowned()
	if err != nil {
		return nil, err
	}
	socket := strings.TrimPrefix(url, "unix://")
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: 64})
	return &server{url: url, socket: socket, client: client, stop: func() {
		_ = client.Close() // the server ends anyway
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}}, nil
}

// withRedis runs do on a server of its own.
func withRedis(do func(*server, *meter) (sample, error)) (sample, error) {
	store, err := startRedis()
	if err != nil {
		return sample{}, err
	}
	defer store.stop()
	return do(store, &meter{redis: store})
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
