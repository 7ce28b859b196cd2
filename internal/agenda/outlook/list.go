package outlook

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
)

// ScanBatch is about how many keys one step of a scan looks at, in one go.
const ScanBatch = 250

// ScanPlace is a place in a scan of all notifications that Redis knows. The zero value is the beginning.
type ScanPlace struct {
	// Server is the number of a cluster's server, Cursor the place on it.
	Server int
	Cursor uint64
}

// Scan makes one step of a scan, over about as many keys as size says: it returns what Redis knows of some
// notifications, in no order that means anything, and the place of the next step; done is true after the last. It does
// not look for their places in their backlogs, see [Agendas.Place]. One that is there from the first step to the last
// comes at least once; one may come twice. With a user's id it reads those of the user's partition only.
func (a *Agendas) Scan(ctx context.Context, at ScanPlace, size int, userID string,
) (states []*agenda.State, next ScanPlace, done bool, err error) {
	partitions, pattern := a.known(userID)
	servers, err := a.Servers(ctx, partitions)
	if err != nil {
		return nil, at, false, err
	}
	if at.Server >= len(servers) {
		return nil, at, true, nil
	}
	node := servers[at.Server]
	keys, cursor, err := node.Scan(ctx, at.Cursor, pattern, int64(size)).Result()
	if err != nil {
		return nil, at, false, fmt.Errorf("list the notifications: %w", err)
	}
	if states, err = a.readStates(ctx, node, keys); err != nil {
		return nil, at, false, err
	}
	next = ScanPlace{Server: at.Server, Cursor: cursor}
	if cursor == 0 {
		next.Server++
	}
	return states, next, next.Server == len(servers), nil
}

// known returns the partitions, and the pattern of the keys, in which the notifications of a user are; of all users
// without an id.
func (a *Agendas) known(userID string) (partitions []int, pattern string) {
	if userID != "" {
		partition := a.PartitionOf(userID)
		return []int{partition}, a.Prefixes()[partition] + "n:*"
	}
	return a.All(), "pacer:{push-*}:n:*"
}

// readStates reads the notifications with these keys.
func (a *Agendas) readStates(ctx context.Context, node redis.UniversalClient, keys []string) ([]*agenda.State, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	pipe := node.Pipeline()
	read := make([]*redis.MapStringStringCmd, len(keys))
	for i, key := range keys {
		read[i] = pipe.HGetAll(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read notifications: %w", err)
	}
	states := make([]*agenda.State, 0, len(keys))
	for i, key := range keys {
		fields := read[i].Val()
		if fields[keyspace.Fields.User] == "" { // it was forgotten meanwhile
			continue
		}
		_, id, _ := strings.Cut(key, "}:n:")
		states = append(states, a.ParseState(id, a.PartitionOf(fields[keyspace.Fields.User]), fields))
	}
	return states, nil
}
