package outlook

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// Sampled is the backlog of one user that a sample found.
type Sampled struct {
	Category string
	// Size counts the backlog, IDs are some of it: all of up to [sampledPlaces], else the first, the last, and others
	// evenly between them.
	Size int
	IDs  []string
}

// SampleUsers picks up to n users of a partition for whom something waits, at random.
func (a *Agendas) SampleUsers(ctx context.Context, partition, n int) ([]string, error) {
	users, err := a.Client.ZRandMember(ctx, a.Prefixes()[partition]+"wakeups", n).Result()
	if err != nil {
		return nil, fmt.Errorf("pick users of partition %d: %w", partition, err)
	}
	return users, nil
}

// Backlogs reads some of each backlog of a user.
func (a *Agendas) Backlogs(ctx context.Context, userID string) ([]Sampled, error) {
	partition := a.PartitionOf(userID)
	prefix := a.Prefixes()[partition]
	categories, err := a.Client.HKeys(ctx, prefix+"a:"+userID).Result()
	if err != nil {
		return nil, fmt.Errorf("read the agenda of a user: %w", err)
	}
	var all []Sampled
	for _, category := range categories {
		if !agenda.IsCategory(category) {
			continue
		}
		key := prefix + "w:" + category + ":" + userID
		size, err := a.Client.ZCard(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("count a backlog: %w", err)
		}
		one := Sampled{Category: category, Size: int(size)}
		if one.IDs, err = a.membersAt(ctx, key, places(size)); err != nil {
			return nil, err
		}
		if len(one.IDs) > 0 {
			all = append(all, one)
		}
	}
	return all, nil
}

// sampledPlaces is how many of a backlog are looked at.
const sampledPlaces = 8

// places are some of so many, from the first to the last.
func places(size int64) []int64 {
	n := min(size, sampledPlaces)
	all := make([]int64, n)
	for i := range n {
		all[i] = i * (size - 1) / max(1, n-1)
	}
	return all
}

// membersAt reads the members of a sorted set at some places.
func (a *Agendas) membersAt(ctx context.Context, key string, places []int64) ([]string, error) {
	pipe := a.Client.Pipeline()
	replies := make([]*redis.StringSliceCmd, len(places))
	for i, at := range places {
		replies[i] = pipe.ZRange(ctx, key, at, at)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read a backlog: %w", err)
	}
	var ids []string
	for _, reply := range replies {
		ids = append(ids, reply.Val()...)
	}
	return ids, nil
}
