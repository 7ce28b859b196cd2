package endpoints

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// ForgetAtOnce is how many removed endpoints are forgotten when another is added.
const ForgetAtOnce = forgetAtOnce

// Note notes what is due.
func (d *Directory) Note(ctx context.Context) { d.note(ctx, false) }

// RemovedEarlier has all removed endpoints of a store be removed so much earlier.
func RemovedEarlier(ctx context.Context, s Store, by time.Duration) error {
	switch s := s.(type) {
	case *Redis:
		removed, err := s.client.ZRangeWithScores(ctx, removedKey, 0, -1).Result()
		if err != nil {
			return err
		}
		for i := range removed {
			removed[i].Score -= by.Seconds()
		}
		return s.client.ZAddArgs(ctx, removedKey, redis.ZAddArgs{XX: true, Members: removed}).Err()
	case *Postgres:
		_, err := s.pool.Exec(ctx, `UPDATE pacer.webhook_endpoints SET removed_at = removed_at - $1::interval
			WHERE removed_at IS NOT NULL`, by)
		return err
	}
	return fmt.Errorf("no removals are known of %T", s)
}
