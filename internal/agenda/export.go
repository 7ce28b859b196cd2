package agenda

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// exportBatch is about how many keys are listed at a time.
const exportBatch = 500

// EachKey calls do, with some hundred keys of one server at a time, for all keys of the partitions that begin with
// kind, such as "n:". A key may come twice.
func (a *Agendas) EachKey(
	ctx context.Context, kind string, do func(ctx context.Context, node redis.UniversalClient, keys []string) error,
) error {
	partitions, _ := a.known("")
	return a.eachServer(ctx, partitions, func(node redis.UniversalClient) error {
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
	})
}

// errFound ends a search.
var errFound = errors.New("found")

// ofNobody are the keys of a partition that tell of no notification and no user: they stay when all others have gone.
var ofNobody = regexp.MustCompile(`\}:(c|a|sweep|generation|holders|moved)$`)

// HoldsAny reports whether the partitions hold anything of a deployment whose store is Redis. Partitions that were
// built from another store, or are being built, hold nothing of one.
func (a *Agendas) HoldsAny(ctx context.Context) (bool, error) {
	if elsewhere, err := a.anyHas(ctx, "epoch", "rebuild"); err != nil || elsewhere {
		return false, err
	}
	err := a.EachKey(ctx, "", func(_ context.Context, _ redis.UniversalClient, keys []string) error {
		for _, key := range keys {
			if !ofNobody.MatchString(key) {
				return errFound
			}
		}
		return nil
	})
	if !errors.Is(err, errFound) {
		return false, err
	}
	// What was found may be of a rebuild that another process has begun since. Its mark stands before all else.
	elsewhere, err := a.anyHas(ctx, "epoch", "rebuild")
	return !elsewhere && err == nil, err
}

// Elsewhere reports whether another store keeps the notifications of the deployment, or is about to.
func (a *Agendas) Elsewhere(ctx context.Context) (bool, error) {
	return a.anyHas(ctx, "epoch", "rebuild", "moved")
}

// anyHas reports whether any partition has one of its own keys with these names.
func (a *Agendas) anyHas(ctx context.Context, names ...string) (bool, error) {
	pipe := a.client.Pipeline()
	var found []*redis.IntCmd
	for _, prefix := range a.partitions {
		for _, name := range names { // one command for all would be refused while a slot of a cluster moves
			found = append(found, pipe.Exists(ctx, prefix+name))
		}
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

// Move closes the partitions to every process whose store is Redis: another store is about to keep the notifications.
func (a *Agendas) Move(ctx context.Context) error {
	pipe := a.client.Pipeline()
	for _, prefix := range a.partitions {
		pipe.Set(ctx, prefix+"moved", "yes", 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("close the partitions: %w", err)
	}
	return nil
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

// ImportState says how far a deployment is on its way from Redis to another store.
type ImportState string

// The states of an import. Without any, nothing has been decided.
const (
	ImportBegun    ImportState = "begun"
	ImportDone     ImportState = "done"
	ImportDeclined ImportState = "declined"
)

// importKey holds the state. It belongs to no partition, so it stays when partitions are emptied.
const importKey = "pacer:import"

// Importing returns the state of the import.
func (a *Agendas) Importing(ctx context.Context) (ImportState, error) {
	text, err := a.client.Get(ctx, importKey).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("check whether Redis was imported: %w", err)
	}
	return ImportState(text), nil
}

// SetImporting writes the state of the import.
func (a *Agendas) SetImporting(ctx context.Context, state ImportState) error {
	if err := a.client.Set(ctx, importKey, string(state), 0).Err(); err != nil {
		return fmt.Errorf("note whether Redis was imported: %w", err)
	}
	return nil
}
