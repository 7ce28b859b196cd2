// Package queue keeps wake-ups on asynq's queues: one queue per partition, one task per user who has something waiting.
//
// The scripts that change the agendas also push, take, schedule and acknowledge wake-ups, in the same step, with the
// functions of wakeup.lua. They leave asynq's keys as asynq itself would, so asynq's tools show who waits. The Go code
// forwards due wake-ups into the queues, signals pending ones, pauses queues, archives foreign tasks, and runs asynq's
// own server beside that.
//
// asynq's times are whole seconds, so wake-ups come early and are held. Their retry budget is unlimited. Otherwise
// asynq would archive a task that was only throttled, when it recovers the task of a dead process.
package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// taskType is the asynq type of every wake-up.
const taskType = "pacer:wakeup"

// Lead is how much earlier than its moment a wake-up is scheduled. It covers the interval of forwarding, and some
// checks for pending tasks. asynq's whole seconds add up to one more second, during which a wake-up has to be held.
const Lead = forwardEvery + 4*watchEvery

// queueNames is the key of the set in which asynq keeps the names of all queues, for its inspector and its tools.
const queueNames = "asynq:queues"

// Client announces the queues to asynq, forwards due wake-ups into them, archives foreign tasks, and pauses queues.
type Client struct{ conn redis.UniversalClient }

// NewClient makes a Client. The connection stays the caller's to close.
func NewClient(conn redis.UniversalClient) *Client { return &Client{conn: conn} }

// Announce writes the names of all queues for asynq's tools.
func (c *Client) Announce(ctx context.Context, partitions int) error {
	names := make([]any, partitions)
	for number := range names {
		names[number] = PartitionName(number)
	}
	if err := c.conn.SAdd(ctx, queueNames, names...).Err(); err != nil {
		return fmt.Errorf("announce the queues to asynq: %w", err)
	}
	return nil
}

// prefixOf is what asynq's keys of a partition's queue begin with.
func prefixOf(partition int) string { return "asynq:{" + PartitionName(partition) + "}:" }
