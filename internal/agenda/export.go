package agenda

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// exportBatch is about how many keys are given at a time.
const exportBatch = 500

// EachKey gives the names of all keys of the partitions that begin with kind, such as "n:", some hundreds of one server at a
// time. A key may come twice.
func (s *Agendas) EachKey(ctx context.Context, kind string, do func(ctx context.Context, node redis.UniversalClient, keys []string) error) error {
	each := func(ctx context.Context, node redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, "pacer:{push-*}:"+kind+"*", exportBatch).Result()
			if err != nil {
				return fmt.Errorf("list the keys of the partitions: %w", err)
			}
			if len(keys) > 0 {
				if err := do(ctx, node, keys); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	cluster, ok := s.cfg.Direct.(*redis.ClusterClient)
	if !ok {
		return each(ctx, s.cfg.Direct)
	}
	var all []int
	for partition := range s.partitions {
		all = append(all, partition)
	}
	masters, err := s.mastersOf(ctx, cluster, all)
	if err != nil {
		return err
	}
	for _, master := range masters { // one after the other: what is told of them needs no lock
		if err := each(ctx, master); err != nil {
			return err
		}
	}
	return nil
}

// errFound ends a search.
var errFound = errors.New("found")

// HoldsAny tells whether the partitions hold anything at all of a deployment whose store is in Redis. Partitions that were ever built
// from a store elsewhere, or are just being, hold nothing of one.
func (s *Agendas) HoldsAny(ctx context.Context) (bool, error) {
	if elsewhere, err := s.anyHas(ctx, "epoch", "rebuild"); err != nil || elsewhere {
		return false, err
	}
	err := s.EachKey(ctx, "", func(_ context.Context, _ redis.UniversalClient, keys []string) error {
		for _, key := range keys {
			if !strings.HasSuffix(key, "}:moved") {
				return errFound
			}
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// Elsewhere tells whether the store of the deployment is elsewhere, or about to be.
func (s *Agendas) Elsewhere(ctx context.Context) (bool, error) {
	return s.anyHas(ctx, "epoch", "rebuild", "moved")
}

// HoldsTicks tells whether an earlier version left notifications waiting that this one does not read: it kept an index of
// what it called agendas, and a task of the queue for each notification.
func (s *Agendas) HoldsTicks(ctx context.Context) (bool, error) { return s.anyHas(ctx, "m") }

// anyHas tells whether any partition has one of its own keys.
func (s *Agendas) anyHas(ctx context.Context, names ...string) (bool, error) {
	pipe := s.client.Pipeline()
	found := make([]*redis.IntCmd, len(s.partitions))
	for partition, prefix := range s.partitions {
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = prefix + name
		}
		found[partition] = pipe.Exists(ctx, keys...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, fmt.Errorf("look how the partitions were built: %w", err)
	}
	for _, exists := range found {
		if exists.Val() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// Move closes the partitions to every process whose store is in Redis: it is about to be elsewhere.
func (s *Agendas) Move(ctx context.Context) error {
	pipe := s.client.Pipeline()
	for _, prefix := range s.partitions {
		pipe.Set(ctx, prefix+"moved", "yes", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("close the partitions: %w", err)
	}
	return nil
}

// ErrMoved says that the store of a deployment is not in Redis any more: this process must have the DATABASE_URL that the
// others have.
var ErrMoved = errors.New("the store of this deployment has moved to Postgres: give this process its DATABASE_URL")

// moved recognises the error by which scripts say so.
func moved(err error) error {
	if err != nil && strings.Contains(err.Error(), "MOVEDON") {
		return ErrMoved
	}
	return err
}

// ImportState tells how far a deployment is on its way from a store on Redis to one elsewhere.
type ImportState string

// The states. Without any nothing has been decided.
const (
	ImportBegun    ImportState = "begun"
	ImportDone     ImportState = "done"
	ImportDeclined ImportState = "declined"
)

// importKey keeps it; it belongs to no partition, and stays when partitions are emptied.
const importKey = "pacer:import"

// Importing tells the state.
func (s *Agendas) Importing(ctx context.Context) (ImportState, error) {
	text, err := s.client.Get(ctx, importKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("look whether Redis was imported: %w", err)
	}
	return ImportState(text), nil
}

// SetImporting writes the state.
func (s *Agendas) SetImporting(ctx context.Context, state ImportState) error {
	if err := s.client.Set(ctx, importKey, string(state), 0).Err(); err != nil {
		return fmt.Errorf("note whether Redis was imported: %w", err)
	}
	return nil
}
