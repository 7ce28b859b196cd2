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

// EachKey gives the names of all keys of the lanes that begin with kind, such as "n:", some hundreds of one server at a
// time. A key may come twice.
func (s *Store) EachKey(ctx context.Context, kind string, do func(ctx context.Context, node redis.UniversalClient, keys []string) error) error {
	each := func(ctx context.Context, node redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, "pacer:{push-*}:"+kind+"*", exportBatch).Result()
			if err != nil {
				return fmt.Errorf("list the keys of the lanes: %w", err)
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
	for lane := range s.lanes {
		all = append(all, lane)
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

// HoldsAny tells whether the lanes hold anything at all of a deployment whose record is in Redis. Lanes that were ever built
// from a record elsewhere, or are just being, hold nothing of one.
func (s *Store) HoldsAny(ctx context.Context) (bool, error) {
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

// Elsewhere tells whether the record of the deployment is elsewhere, or about to be.
func (s *Store) Elsewhere(ctx context.Context) (bool, error) {
	return s.anyHas(ctx, "epoch", "rebuild", "moved")
}

// HoldsTicks tells whether an earlier version left notifications waiting that this one does not read: it kept an index of
// what it called mailboxes, and a task of the queue for each notification.
func (s *Store) HoldsTicks(ctx context.Context) (bool, error) { return s.anyHas(ctx, "m") }

// anyHas tells whether any lane has one of its own keys.
func (s *Store) anyHas(ctx context.Context, names ...string) (bool, error) {
	pipe := s.client.Pipeline()
	found := make([]*redis.IntCmd, len(s.lanes))
	for lane, prefix := range s.lanes {
		keys := make([]string, len(names))
		for i, name := range names {
			keys[i] = prefix + name
		}
		found[lane] = pipe.Exists(ctx, keys...)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, fmt.Errorf("look how the lanes were built: %w", err)
	}
	for _, exists := range found {
		if exists.Val() > 0 {
			return true, nil
		}
	}
	return false, nil
}

// Move closes the lanes to every process whose record is in Redis: it is about to be elsewhere.
func (s *Store) Move(ctx context.Context) error {
	pipe := s.client.Pipeline()
	for _, prefix := range s.lanes {
		pipe.Set(ctx, prefix+"moved", "yes", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("close the lanes: %w", err)
	}
	return nil
}

// ErrMoved says that the record of a deployment is not in Redis any more: this process must have the DATABASE_URL that the
// others have.
var ErrMoved = errors.New("the record of this deployment has moved to Postgres: give this process its DATABASE_URL")

// moved recognises the error by which scripts say so.
func moved(err error) error {
	if err != nil && strings.Contains(err.Error(), "MOVEDON") {
		return ErrMoved
	}
	return err
}

// ImportState tells how far a deployment is on its way from a record on Redis to one elsewhere.
type ImportState string

// The states. Without any nothing has been decided.
const (
	ImportBegun    ImportState = "begun"
	ImportDone     ImportState = "done"
	ImportDeclined ImportState = "declined"
)

// importKey keeps it; it belongs to no lane, and stays when lanes are emptied.
const importKey = "pacer:import"

// Importing tells the state.
func (s *Store) Importing(ctx context.Context) (ImportState, error) {
	text, err := s.client.Get(ctx, importKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("look whether Redis was imported: %w", err)
	}
	return ImportState(text), nil
}

// SetImporting writes the state.
func (s *Store) SetImporting(ctx context.Context, state ImportState) error {
	if err := s.client.Set(ctx, importKey, string(state), 0).Err(); err != nil {
		return fmt.Errorf("note whether Redis was imported: %w", err)
	}
	return nil
}
