package queue

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed forward.lua
var forwardSource string

// forwardScript does for many queues at once what asynq's forwarder does for one.
var forwardScript = script.NewWhenFull(forwardSource)

// forwardAtOnce is how many wake-ups one script moves at most, so that other scripts need not wait long.
const forwardAtOnce = 500

// Forwarded is what one call of [Client.Forward] did.
type Forwarded struct {
	// Moved is how many wake-ups it moved; More says that more may be due.
	Moved int
	More  bool
	// Next is how long it is until Redis's next second begins: nothing else is due before.
	Next time.Duration
}

// Forward moves wake-ups that are due into the queues of their partitions. One script does it, so on Redis Cluster
// a call names one partition. Forward moves a limited number.
func (c *Client) Forward(ctx context.Context, partitions ...int) (Forwarded, error) {
	keys := make([]string, 0, 2*len(partitions))
	for _, partition := range partitions {
		keys = append(keys, PartitionKeys(prefixOf(partition))...)
	}
	tell := "0"
	if len(partitions) > 1 {
		tell = "1"
	}
	reply, err := forwardScript.Run(ctx, c.conn, keys, forwardAtOnce, tell).Int64Slice()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("the script returned %d fields", len(reply))
	}
	if err != nil {
		return Forwarded{}, fmt.Errorf("forward due wake-ups: %w", err)
	}
	return Forwarded{
		Moved: int(reply[0]), More: reply[0] == forwardAtOnce,
		Next: time.Second - time.Duration(reply[1])*time.Microsecond,
	}, nil
}
