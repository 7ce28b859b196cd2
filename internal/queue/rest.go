package queue

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/script"
)

// pausedByPacer is what pacer writes into asynq's key of a paused queue. asynq's own tools write the moment instead, so
// a pause of theirs is told apart, and is theirs to end.
const pausedByPacer = "pacer"

//go:embed rest.lua
var restText string

var restScript = script.New(restText)

// Rest is how a partition's queue was found, after it was made as it should be.
type Rest struct {
	Partition int
	// Outside is true when somebody paused the queue past pacer, such as with asynq's tools, at Since if they tell.
	Outside bool
	Since   time.Time
}

// Reconcile stops the queues of the partitions that should rest, and lets go on those that pacer stopped and that
// should not rest any more; what is stopped from outside stays so. It gives the partitions that could be asked, each
// judged by itself, and the errors of the others. Workers look at asynq's key when they take from a queue; what is
// under way goes on.
func (c *Client) Reconcile(ctx context.Context, partitions int, rests func(partition int) bool) ([]Rest, error) {
	pipe := c.conn.Pipeline()
	found := make([]*redis.StringCmd, partitions)
	for partition := range found {
		found[partition] = pipe.Get(ctx, pausedKey(partition))
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	known := make([]Rest, 0, partitions)
	var faults []error
	for partition, answer := range found {
		value, err := answer.Result()
		if errors.Is(err, redis.Nil) {
			value, err = "", nil
		}
		if err == nil && rests(partition) != (value == pausedByPacer) {
			value, err = c.rest(ctx, partition, rests(partition))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("pause or resume the queue of partition %d: %w", partition, err))
			continue
		}
		known = append(known, restOf(partition, value))
	}
	return known, errors.Join(faults...)
}

// rest stops a partition's queue, or lets it go on if it was pacer that stopped it, and gives the key's value
// afterwards.
func (c *Client) rest(ctx context.Context, partition int, rests bool) (string, error) {
	return restScript.Run(ctx, c.conn, []string{pausedKey(partition)}, pausedByPacer, rests).Text()
}

// Resume lets a partition's queue go on, whoever stopped it, and tells whether somebody had.
func (c *Client) Resume(ctx context.Context, partition int) (bool, error) {
	deleted, err := c.conn.Del(ctx, pausedKey(partition)).Result()
	if err != nil {
		return false, fmt.Errorf("resume the queue of partition %d: %w", partition, err)
	}
	return deleted > 0, nil
}

func restOf(partition int, value string) Rest {
	rest := Rest{Partition: partition, Outside: value != "" && value != pausedByPacer}
	if seconds, err := strconv.ParseInt(value, 10, 64); rest.Outside && err == nil {
		rest.Since = time.Unix(seconds, 0)
	}
	return rest
}

func pausedKey(partition int) string { return prefixOf(partition) + "paused" }
