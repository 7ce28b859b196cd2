package outlook

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
)

// UsersWaiting counts the users for whom something waits.
func (a *Agendas) UsersWaiting(ctx context.Context) (int, error) {
	counts, err := a.countWakeups(ctx)
	if err != nil {
		return 0, fmt.Errorf("count the users for whom something waits: %w", err)
	}
	users := 0
	for _, count := range counts {
		users += int(count.Val())
	}
	return users, nil
}

// countWakeups counts the wake-ups of each partition: as many as users for whom something waits. Each count has its own
// error, the first of which it returns.
func (a *Agendas) countWakeups(ctx context.Context) ([]*redis.IntCmd, error) {
	pipe := a.Client.Pipeline()
	counts := make([]*redis.IntCmd, a.Partitions())
	for partition, prefix := range a.Prefixes() {
		counts[partition] = pipe.ZCard(ctx, prefix+"wakeups")
	}
	_, err := pipe.Exec(ctx)
	return counts, err
}

// Pending counts the wake-ups of a partition that stand in the queue and are due.
func (a *Agendas) Pending(ctx context.Context, partition int) (int, error) {
	n, err := a.Client.LLen(ctx, keyspace.TasksPrefix(partition)+"pending").Result()
	if err != nil {
		return 0, fmt.Errorf("count the wake-ups that are due in partition %d: %w", partition, err)
	}
	return int(n), nil
}
