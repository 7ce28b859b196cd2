package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/dispatch"
)

// Rest stops a lane's queue, or lets it go on: the key is asynq's own, so that its tools show it and can end it. What is
// under way goes on.
func (c *Client) Rest(ctx context.Context, lane int, resting bool) error {
	key := "asynq:{" + dispatch.LaneName(lane) + "}:paused"
	var err error
	if resting {
		err = c.conn.SetNX(ctx, key, time.Now().Unix(), 0).Err()
	} else {
		err = c.conn.Del(ctx, key).Err()
	}
	if err != nil {
		return fmt.Errorf("pause or resume the queue of lane %d: %w", lane, err)
	}
	return nil
}
