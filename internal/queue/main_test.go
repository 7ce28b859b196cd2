package queue_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/redistest"
)

// workerURL is the environment variable that turns this binary into a worker on that Redis, which holds every tick that
// it pulls until it dies.
const workerURL = "QUEUE_TEST_WORKER_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(workerURL); url != "" {
		os.Exit(work(url))
	}
	redistest.Main(m)
}

// work pulls ticks, prints their names and never finishes one. It waits for the end of standard input.
func work(url string) int {
	options, err := redis.ParseURL(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server := queue.NewServer(redis.NewClient(options), queue.ServerConfig{Lanes: 1})
	err = server.Start(func(_ context.Context, t dispatch.Tick) error {
		fmt.Println(t.ID)
		select {}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // Its end is what matters.
	return 0
}
