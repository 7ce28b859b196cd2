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

// pausedByPacer is what pacer writes into asynq's key of a paused queue. asynq's own tools write the time instead, so a
// pause of theirs can be told apart. It is theirs to end.
const pausedByPacer = "pacer"

//go:embed pause.lua
var pauseSource string

// pauseScript is pause.lua.
var pauseScript = script.New(pauseSource)

// State is the state of a partition's queue after [Client.Reconcile].
type State struct {
	Partition int
	// Outside is true when somebody paused the queue without pacer, such as with asynq's tools. Since says when,
	// if it is known.
	Outside bool
	Since   time.Time
}

// Reconcile pauses the queues of the partitions that shouldPause names, and resumes the others. It resumes only what
// pacer paused: a pause from outside stays. Each partition is handled by itself: Reconcile returns the states of those
// that could be reached, and the joined errors of the others. A pause stops workers from taking more from a queue;
// deliveries in flight go on.
func (c *Client) Reconcile(
	ctx context.Context, partitions int, shouldPause func(partition int) bool,
) ([]State, error) {
	pipe := c.conn.Pipeline()
	replies := make([]*redis.StringCmd, partitions)
	for partition := range replies {
		replies[partition] = pipe.Get(ctx, pausedKey(partition))
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	states := make([]State, 0, partitions)
	var faults []error
	for partition, reply := range replies {
		value, err := reply.Result()
		if errors.Is(err, redis.Nil) {
			value, err = "", nil
		}
		if pause := shouldPause(partition); err == nil && pause != (value == pausedByPacer) {
			value, err = c.setPaused(ctx, partition, pause)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("pause or resume the queue of partition %d: %w", partition, err))
			continue
		}
		states = append(states, stateOf(partition, value))
	}
	return states, errors.Join(faults...)
}

// setPaused pauses a partition's queue, or resumes it if pacer paused it. It returns what the key holds afterwards.
func (c *Client) setPaused(ctx context.Context, partition int, pause bool) (string, error) {
	return pauseScript.Run(ctx, c.conn, []string{pausedKey(partition)}, pausedByPacer, pause).Text()
}

// Resume resumes a partition's queue, whoever paused it, and reports whether it was paused.
func (c *Client) Resume(ctx context.Context, partition int) (bool, error) {
	deleted, err := c.conn.Del(ctx, pausedKey(partition)).Result()
	if err != nil {
		return false, fmt.Errorf("resume the queue of partition %d: %w", partition, err)
	}
	return deleted > 0, nil
}

// stateOf reads the value of asynq's key of a paused queue; it is empty when the queue is not paused.
func stateOf(partition int, value string) State {
	state := State{Partition: partition, Outside: value != "" && value != pausedByPacer}
	if seconds, err := strconv.ParseInt(value, 10, 64); state.Outside && err == nil {
		state.Since = time.Unix(seconds, 0)
	}
	return state
}

// Paused returns asynq's key of a partition's paused queue, and what pacer writes into it: for a script that pauses the
// queue itself.
func Paused(partition int) (key, by string) { return pausedKey(partition), pausedByPacer }

// pausedKey is asynq's key of a paused queue.
func pausedKey(partition int) string { return prefixOf(partition) + "paused" }
