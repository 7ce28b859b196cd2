package maintenance

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Fence has every partition remember the mark of another store that is about to keep the notifications. From then on,
// the scripts refuse every process that keeps them on Redis.
func (m *Agendas) Fence(ctx context.Context, mark string) error {
	pipe := m.Client.Pipeline()
	for _, prefix := range m.Prefixes() {
		pipe.Set(ctx, prefix+"mark", mark, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("close the partitions to processes without DATABASE_URL: %w", err)
	}
	return nil
}

// Elsewhere reports whether another store keeps the notifications of the deployment, or is about to.
func (m *Agendas) Elsewhere(ctx context.Context) (bool, error) {
	return m.anyHas(ctx, "epoch", "mark", "rebuild")
}

// WasBuilt reports whether a partition was built from another store.
func (m *Agendas) WasBuilt(ctx context.Context) (bool, error) {
	return m.anyHas(ctx, "epoch", "counted")
}

// anyHas reports whether any partition has one of its own keys with these names.
func (m *Agendas) anyHas(ctx context.Context, names ...string) (bool, error) {
	pipe := m.Client.Pipeline()
	for _, prefix := range m.Prefixes() {
		for _, name := range names { // one command for all would be refused while a slot of a cluster moves
			pipe.Exists(ctx, prefix+name)
		}
	}
	replies, err := pipe.Exec(ctx)
	if err != nil {
		return false, fmt.Errorf("look how the partitions were built: %w", err)
	}
	return slices.ContainsFunc(replies, func(reply redis.Cmder) bool {
		exists, ok := reply.(*redis.IntCmd)
		return ok && exists.Val() > 0
	}), nil
}
