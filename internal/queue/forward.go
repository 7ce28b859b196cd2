package queue

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed forward.lua
var forwardSource string

// forwardScript does for many queues at once what asynq's forwarder does for one.
var forwardScript = script.NewWhenFull(forwardSource)

const (
	// forwardAtOnce is how many tasks one script moves at most: nobody else's script waits for longer than that takes.
	forwardAtOnce = 500
	// forwardsAtMost is how many scripts follow each other. What is left then waits for the next time.
	forwardsAtMost = 100
)

// Forward moves the tasks of a partition whose time has come into its queue, as a [Server] does by itself.
func (c *Client) Forward(ctx context.Context, partition int) error {
	return forward(ctx, c.conn, dispatch.PartitionKeys(prefixOf(partition)), nil)
}

// forward moves what is due in the queues with these keys, until nothing more is or closing.
func forward(ctx context.Context, conn redis.UniversalClient, keys []string, closing <-chan struct{}) error {
	for range forwardsAtMost {
		moved, err := forwardScript.Run(ctx, conn, keys, forwardAtOnce).Int()
		if err != nil || moved < forwardAtOnce {
			return err
		}
		select {
		case <-closing:
			return nil
		default:
		}
	}
	return nil
}
