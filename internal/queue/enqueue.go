package queue

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
)

//go:embed enqueue.lua
var enqueueSource string

// enqueueScript does for many ticks of a lane what asynq's client does for one: a script of its own for each was half the
// cost of accepting.
var enqueueScript = script.New(enqueueSource)

const (
	// enqueueBatch is how many ticks one script puts into a lane: no other caller waits for longer than that takes.
	enqueueBatch = 64
	// enqueuers is how many scripts of one call are under way at once.
	enqueuers = 32
)

// queueNames is the set in which asynq keeps the names of all queues, for its inspector and its tools.
const queueNames = "asynq:queues"

// Client puts ticks into the queue.
type Client struct {
	conn redis.UniversalClient
	// known holds the lanes that asynq has been told of.
	known sync.Map
}

// NewClient makes a Client on a connection that stays the caller's.
func NewClient(conn redis.UniversalClient) *Client { return &Client{conn: conn} }

// Enqueue implements [dispatch.Queue].
func (c *Client) Enqueue(ctx context.Context, alarms ...dispatch.Alarm) error {
	lanes := map[int][]dispatch.Alarm{}
	for _, a := range alarms {
		lanes[a.Tick.Lane] = append(lanes[a.Tick.Lane], a)
	}
	var group errgroup.Group
	group.SetLimit(enqueuers)
	for lane, alarms := range lanes {
		for part := range slices.Chunk(alarms, enqueueBatch) {
			group.Go(func() error { return c.enqueue(ctx, lane, part) })
		}
	}
	return group.Wait()
}

// enqueue puts ticks of one lane into it.
func (c *Client) enqueue(ctx context.Context, lane int, alarms []dispatch.Alarm) error {
	name, now := dispatch.LaneName(lane), time.Now()
	args := make([]any, 0, 3*len(alarms))
	for _, a := range alarms {
		message, err := encodeTask(name, a.Tick)
		if err != nil {
			return err
		}
		due := "0"
		if after := a.After - lead; after > 0 {
			due = strconv.FormatInt(now.Add(after).Unix(), 10)
		}
		args = append(args, a.Tick.ID, message, due)
	}
	err := c.announce(ctx, name)
	if err == nil {
		err = enqueueScript.Run(ctx, c.conn, dispatch.LaneKeys("asynq:{"+name+"}:"), args...).Err()
	}
	switch {
	case err == nil:
		return nil
	case len(alarms) == 1:
		return fmt.Errorf("enqueue tick %s into %s: %w", alarms[0].Tick.ID, name, err)
	}
	return fmt.Errorf("enqueue %d ticks into %s: %w", len(alarms), name, err)
}

// announce tells asynq of a lane, once.
func (c *Client) announce(ctx context.Context, name string) error {
	if _, known := c.known.Load(name); known {
		return nil
	}
	if err := c.conn.SAdd(ctx, queueNames, name).Err(); err != nil {
		return err
	}
	c.known.Store(name, true)
	return nil
}
