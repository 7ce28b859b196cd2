package queue

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed forward.lua
var forwardSource string

// forwardScript does for many queues at once what asynq's forwarder does for one.
var forwardScript = script.NewWhenFull(forwardSource)

// forwardAtOnce is how many wake-ups one script moves at most, so that other scripts need not wait long.
const forwardAtOnce = 500

// Forward moves wake-ups that are due into the queues of their partitions. One script does it, so on Redis Cluster
// a call names one partition. Forward moves a limited number, and reports whether more may be due.
func (c *Client) Forward(ctx context.Context, partitions ...int) (more bool, err error) {
	keys := make([]string, 0, 2*len(partitions))
	for _, partition := range partitions {
		keys = append(keys, dispatch.PartitionKeys(prefixOf(partition))...)
	}
	moved, err := forwardScript.Run(ctx, c.conn, keys, forwardAtOnce).Int()
	if err != nil {
		return false, fmt.Errorf("forward due wake-ups: %w", err)
	}
	return moved == forwardAtOnce, nil
}
