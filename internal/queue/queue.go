// Package queue keeps wake-ups on asynq's queues: one queue per partition, one task per user who has something waiting.
//
// Wake-ups are put in, taken, deferred and acknowledged by the scripts that change the agendas, in the same step, with
// the functions of wakeup.lua; asynq's keys are left as asynq itself would leave them, so that its tools show who
// waits. What is left to this package: it moves wake-ups whose time has come into the queues and tells of them, pauses
// queues, archives tasks that are no wake-ups, and has a server of asynq's run beside. asynq's times are whole seconds,
// so a wake-up comes early and is held. Its retry budget is switched off, since asynq, when it takes a task back from a
// dead process, would archive one that was only throttled.
package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// taskType is the asynq type of every wake-up.
const taskType = "pacer:wakeup"

// Lead is how much earlier than its moment a wake-up is scheduled: the forwarding's interval, the look for what is
// pending and some air. The whole seconds of asynq add up to one more second, for which a wake-up has to be held.
const Lead = forwardEvery + 4*watchEvery

// queueNames is the set in which asynq keeps the names of all queues, for its inspector and its tools.
const queueNames = "asynq:queues"

// Client tells asynq of the queues, and pauses them.
type Client struct{ conn redis.UniversalClient }

// NewClient makes a Client on a connection that stays the caller's.
func NewClient(conn redis.UniversalClient) *Client { return &Client{conn: conn} }

// Announce tells asynq's tools of the queues of all partitions.
func (c *Client) Announce(ctx context.Context, partitions int) error {
	names := make([]any, partitions)
	for number := range names {
		names[number] = dispatch.PartitionName(number)
	}
	if err := c.conn.SAdd(ctx, queueNames, names...).Err(); err != nil {
		return fmt.Errorf("tell asynq of the queues: %w", err)
	}
	return nil
}

// prefixOf begins asynq's keys of a partition's queue.
func prefixOf(partition int) string { return "asynq:{" + dispatch.PartitionName(partition) + "}:" }
