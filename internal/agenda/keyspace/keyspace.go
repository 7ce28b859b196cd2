// Package keyspace is where a deployment's state is on Redis: its partitions, the keys and servers of each, and
// whether it has its state.
package keyspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/script"
)

// Space is all partitions of a deployment.
type Space struct {
	Client redis.UniversalClient
	// Direct is the client behind Client, for requests to each server of a cluster by itself.
	Direct redis.UniversalClient
	// OneServer says that it is not a cluster: one script may name several partitions.
	OneServer bool

	prefixes   []string
	scriptKeys [][]string
}

// New makes the space of so many partitions.
func New(client, direct redis.UniversalClient, partitions int) *Space {
	s := &Space{Client: client, Direct: direct, OneServer: queue.Tells(direct)}
	for partition := range partitions {
		s.prefixes = append(s.prefixes, Prefix(partition))
		s.scriptKeys = append(s.scriptKeys, queue.PartitionKeys(Prefix(partition)))
	}
	return s
}

// Prefix is what every key of a partition begins with. Its hash tag is that of the partition's asynq queue, so both are
// in one slot of a cluster.
func Prefix(partition int) string {
	return "pacer:{" + queue.PartitionName(partition) + "}:"
}

// TasksPrefix is what the keys of a partition's asynq queue begin with.
func TasksPrefix(partition int) string { return "asynq:{" + queue.PartitionName(partition) + "}:" }

// Partitions returns how many there are.
func (s *Space) Partitions() int { return len(s.prefixes) }

// PartitionOf returns the partition of a user.
func (s *Space) PartitionOf(userID string) int { return dispatch.PartitionOf(userID, len(s.prefixes)) }

// PrefixOf is what every key of a user's partition begins with.
func (s *Space) PrefixOf(userID string) string { return s.prefixes[s.PartitionOf(userID)] }

// Prefixes are those of all partitions, in order.
func (s *Space) Prefixes() []string { return s.prefixes }

// ScriptKeys are the keys that a script of a partition names, see [queue.PartitionKeys].
func (s *Space) ScriptKeys(partition int) []string { return s.scriptKeys[partition] }

// Run executes a script in a partition and returns its reply as a list.
func (s *Space) Run(ctx context.Context, source *script.Script, partition int, args []any) ([]any, error) {
	return source.Run(ctx, s.Client, s.scriptKeys[partition], args...).Slice()
}

// OfKey is the partition of a key; -1 when it is none of this deployment's.
func (s *Space) OfKey(key string) int {
	name, _, _ := strings.Cut(strings.TrimPrefix(key, "pacer:{"), "}:")
	partition, err := queue.PartitionOfName(name)
	if err != nil || partition >= len(s.prefixes) {
		return -1
	}
	return partition
}

// All are the numbers of all partitions.
func (s *Space) All() []int {
	all := make([]int, len(s.prefixes))
	for i := range all {
		all[i] = i
	}
	return all
}

// Servers lists the servers that hold some partitions, always in the same order. So it does not matter when another
// server is away.
func (s *Space) Servers(ctx context.Context, partitions []int) ([]redis.UniversalClient, error) {
	cluster, ok := s.Direct.(*redis.ClusterClient)
	if !ok {
		return []redis.UniversalClient{s.Direct}, nil
	}
	var masters []*redis.Client
	for _, partition := range partitions {
		master, err := cluster.MasterForKey(ctx, s.prefixes[partition])
		if err != nil {
			return nil, fmt.Errorf("find the server of partition %d: %w", partition, err)
		}
		if !slices.Contains(masters, master) {
			masters = append(masters, master)
		}
	}
	slices.SortFunc(masters, func(a, b *redis.Client) int {
		return strings.Compare(a.Options().Addr, b.Options().Addr)
	})
	servers := make([]redis.UniversalClient, len(masters))
	for i, master := range masters {
		servers[i] = master
	}
	return servers, nil
}

// EachServer calls do for each server that holds some partitions, one after another, so that do needs no lock.
func (s *Space) EachServer(ctx context.Context, partitions []int, do func(node redis.UniversalClient) error) error {
	servers, err := s.Servers(ctx, partitions)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err := do(server); err != nil {
			return err
		}
	}
	return nil
}

// usersAtOnce is how many things one script looks at.
const usersAtOnce = 100

// InBatches calls do with the places of n things of users, a batch of one partition at a time.
func (s *Space) InBatches(n int, userOf func(i int) string, do func(partition int, part []int) error) error {
	places := map[int][]int{}
	for i := range n {
		partition := s.PartitionOf(userOf(i))
		places[partition] = append(places[partition], i)
	}
	for partition, all := range places {
		for part := range slices.Chunk(all, usersAtOnce) {
			if err := do(partition, part); err != nil {
				return err
			}
		}
	}
	return nil
}

// Now returns the time on Redis's clock.
func (s *Space) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return now, nil
}
