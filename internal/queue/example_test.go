package queue_test

import (
	"context"
	"fmt"

	"github.com/pacer-notify/pacer/internal/embedded"
	"github.com/pacer-notify/pacer/internal/queue"
)

// Partition 1 is to be paused, and then no partition.
func ExampleClient_Reconcile() {
	ctx := context.Background()
	server := embedded.Start(ctx)
	defer func() { _ = server.Close() }()
	client := queue.NewClient(server.Client())
	for _, paused := range []int{1, -1} {
		states, err := client.Reconcile(ctx, 2, func(partition int) bool { return partition == paused })
		if err != nil {
			panic(err)
		}
		isPaused := server.Client().Exists(ctx, "asynq:{push-1}:paused").Val() == 1
		fmt.Println(len(states), "partitions reached; partition 1 is paused:", isPaused)
	}
	// Output:
	// 2 partitions reached; partition 1 is paused: true
	// 2 partitions reached; partition 1 is paused: false
}
