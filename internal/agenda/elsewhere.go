package agenda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Fence has every partition remember the mark of another store that is about to keep the notifications. From then on,
// the scripts refuse every process that keeps them on Redis.
func (a *Agendas) Fence(ctx context.Context, mark string) error {
	pipe := a.client.Pipeline()
	for _, prefix := range a.partitions {
		pipe.Set(ctx, prefix+"mark", mark, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("close the partitions to processes without DATABASE_URL: %w", err)
	}
	return nil
}

// Elsewhere reports whether another store keeps the notifications of the deployment, or is about to.
func (a *Agendas) Elsewhere(ctx context.Context) (bool, error) {
	return a.anyHas(ctx, "epoch", "mark", "rebuild")
}

// WasBuilt reports whether a partition was built from another store.
func (a *Agendas) WasBuilt(ctx context.Context) (bool, error) {
	return a.anyHas(ctx, "epoch", "counted")
}

// anyHas reports whether any partition has one of its own keys with these names.
func (a *Agendas) anyHas(ctx context.Context, names ...string) (bool, error) {
	pipe := a.client.Pipeline()
	for _, prefix := range a.partitions {
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

// ErrMoved says that the store of a deployment is no longer Redis. This process needs the DATABASE_URL that the others
// have.
var ErrMoved = errors.New("the store of this deployment has moved to Postgres: set DATABASE_URL for this process, too")

// moved returns ErrMoved for the error with which scripts say so.
func moved(err error) error {
	if err != nil && strings.Contains(err.Error(), "MOVEDON") {
		return ErrMoved
	}
	return err
}
