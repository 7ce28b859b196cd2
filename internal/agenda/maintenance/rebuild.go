package maintenance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// layout names how a partition keeps its state. It is part of the identity, so a version that keeps it in another way
// rebuilds each partition once.
const layout = "agendas"

// Identity names the server that the partitions are on. Another server, or the same one after a restart, has another
// identity: it may have older state.
func (m *Agendas) Identity(ctx context.Context) (string, error) {
	if _, cluster := m.Direct.(*redis.ClusterClient); cluster {
		// The partitions are on several servers. So a partition's epoch tells only whether it has its state.
		return layout + " cluster", nil
	}
	info, err := m.Client.Info(ctx, "server", "replication").Result()
	if err != nil {
		info, err = m.Client.Info(ctx).Result() // the embedded engine takes no section
	}
	if err != nil {
		return "", fmt.Errorf("ask Redis for its identity: %w", err)
	}
	return identityOf(info), nil
}

// identityOf reads the identity of one server out of its INFO.
func identityOf(info string) string {
	return layout + " server " + infoField(info, "run_id") + " " + infoField(info, "master_replid")
}

// infoField returns a field of the reply to INFO; empty when there is none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return value
		}
	}
	return ""
}

// stop takes the epoch from a partition, and notes the rebuild that it is in, and on which data that began.
//
//	KEYS[1]  the token of the rebuild that the partition is in
//	KEYS[2]  the epoch
//	KEYS[3]  the epoch that the partition has lost, now or to a rebuild that did not come to its end
//	KEYS[4]  on which data the partition was built
//	ARGV[1]  the token of the rebuild that begins
//	ARGV[2]  the identity of the server
//	Result   1 when the partition had its state, and on the server on which it was built; else 0
var stop = script.NewWhenFull(script.Here + `local epoch = redis.call('GET', KEYS[2])
local lost = epoch or redis.call('GET', KEYS[3]) or ''
local whole = string.match(lost, '^%d+ (.*)$') == ARGV[2] and redis.call('GET', KEYS[4]) == here()
if epoch then redis.call('RENAME', KEYS[2], KEYS[3]) end
redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. here())
return whole and 1 or 0`)

// Stop stops the partitions for a rebuild. Until [Agendas.EndRebuild], only calls with the same token change them. Each
// of these returns [dispatch.ErrLost] when another rebuild of a partition has begun meanwhile, or its server has other
// data than when it was stopped: what was restored may be missing there. After an error, those that were stopped count
// as lost. Stop returns those that had not lost their state on the server with this identity.
func (m *Agendas) Stop(ctx context.Context, partitions []int, token, identity string) (whole []int, err error) {
	for _, partition := range partitions {
		prefix := m.Prefixes()[partition]
		keys := []string{prefix + "rebuild", prefix + "epoch", prefix + "counted", prefix + "built"}
		had, err := stop.Run(ctx, m.Client, keys, token, identity).Int()
		if err != nil {
			return nil, fmt.Errorf("stop partition %d: %w", partition, err)
		}
		if had == 1 {
			whole = append(whole, partition)
		}
	}
	return whole, nil
}

// Kept says what of a partition outlives a rebuild: the ends that the other store does not know of, and the admissions
// that the limiter counts.
type Kept struct{ Ends, Windows bool }

// Empty removes the state and the wake-ups of partitions that are stopped, but for what each keeps. It returns
// [dispatch.ErrLost] when another rebuild of them has begun meanwhile.
func (m *Agendas) Empty(ctx context.Context, partitions map[int]Kept, token string) error {
	return m.EachServer(ctx, slices.Collect(maps.Keys(partitions)), func(node redis.UniversalClient) error {
		return m.wipe(ctx, node, partitions, token)
	})
}

// wipeBatch is how many keys are removed at a time.
const wipeBatch = 1000

// wipe removes what a server holds of the partitions: their state, and also their wake-ups, because a rebuild sets a
// new one for each user for whom something waits, and old ones would be in its way.
func (m *Agendas) wipe(ctx context.Context, node redis.UniversalClient, partitions map[int]Kept, token string,
) error {
	for _, pattern := range []string{"pacer:{push-*", "asynq:{push-*"} {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, wipeBatch).Result()
			if err != nil {
				return fmt.Errorf("list what is left of the partitions: %w", err)
			}
			if err := m.remove(ctx, token, m.staleOf(keys, partitions)); err != nil {
				return fmt.Errorf("remove what is left of the partitions: %w", err)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// removeKeys removes keys of a partition, except archived tasks, which are for people to look at.
//
//	KEYS[1]   the token of the rebuild that the partition is in
//	KEYS[2…]  what to remove
//	ARGV[1]   the token of the rebuild that removes it
//	Result    how many there were
var removeKeys = script.NewWhenFull(keyspace.InRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then
  ` + keyspace.NotInRebuild + `
end
local removed = 0
for i = 2, #KEYS do
  local task = string.match(KEYS[i], '^asynq:{[^}]*}:t:')
  if not task or redis.call('HGET', KEYS[i], 'state') ~= 'archived' then
    removed = removed + redis.call('UNLINK', KEYS[i])
  end
end
return removed`)

// remove removes keys, by partition. A process that has stood still while another has built a partition removes nothing
// of what that one has built.
func (m *Agendas) remove(ctx context.Context, token string, keys map[int][]string) error {
	for partition, of := range keys {
		guarded := append([]string{m.Prefixes()[partition] + "rebuild"}, of...)
		if err := removeKeys.Run(ctx, m.Client, guarded, token).Err(); err != nil {
			return fmt.Errorf("partition %d: %w", partition, keyspace.Fault(err))
		}
	}
	return nil
}

// queueParts are the parts of a partition's asynq queue that hold wake-ups. asynq's counters, archived tasks and pauses
// stay.
var queueParts = []string{"pending", "active", "lease", "scheduled", "retry"}

// buildParts say how a partition was built. They stay until it is built anew.
var buildParts = []string{"rebuild", "counted", "built", "mark"}

// staleOf returns those of the keys that are state of the partitions which a rebuild replaces, by partition.
func (m *Agendas) staleOf(keys []string, partitions map[int]Kept) map[int][]string {
	stale := map[int][]string{}
	for _, key := range keys {
		for partition, kept := range partitions {
			if m.stale(key, partition, kept) {
				stale[partition] = append(stale[partition], key)
				break
			}
		}
	}
	return stale
}

// stale reports whether a key is state of a partition that a rebuild replaces. The epoch of the counts stays until
// these are gone.
func (m *Agendas) stale(key string, partition int, kept Kept) bool {
	if name, ours := strings.CutPrefix(key, m.Prefixes()[partition]); ours {
		return !slices.Contains(buildParts, name) && !(kept.Ends && name == "z") &&
			!(kept.Windows && throttle.IsWindow(name))
	}
	name, queued := strings.CutPrefix(key, keyspace.TasksPrefix(partition))
	return queued && (strings.HasPrefix(name, "t:") || slices.Contains(queueParts, name))
}

// restorePause pauses the queue of a partition, which Redis may have forgotten.
//
//	KEYS[1]  the token of the rebuild that the partition is in
//	KEYS[2]  asynq's key of the paused queue
//	ARGV[1]  the token of the rebuild that pauses it
//	ARGV[2]  what pacer writes into that key
//	Result   1
var restorePause = script.NewWhenFull(keyspace.InRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then
  ` + keyspace.NotInRebuild + `
end
redis.call('SET', KEYS[2], ARGV[2])
return 1`)

// RestorePause pauses the queue of a partition before the partition goes on.
func (m *Agendas) RestorePause(ctx context.Context, token string, partition int) error {
	key, by := queue.Paused(partition)
	keys := []string{m.Prefixes()[partition] + "rebuild", key}
	if err := restorePause.Run(ctx, m.Client, keys, token, by).Err(); err != nil {
		return fmt.Errorf("pause partition %d: %w", partition, keyspace.Fault(err))
	}
	return nil
}

// finishRebuild sets the epoch, where the partition was built, and the mark, unless the state was lost again during the
// rebuild.
var finishRebuild = script.NewWhenFull(keyspace.InRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('MSET', KEYS[2], ARGV[2], KEYS[3], here(), KEYS[5], ARGV[3])
return 1`)

// EndRebuild lets the partition go on. It returns [dispatch.ErrLost] when the state was lost again meanwhile.
func (m *Agendas) EndRebuild(ctx context.Context, token string, partition int, built Built) error {
	prefix := m.Prefixes()[partition]
	keys := []string{prefix + "rebuild", prefix + "epoch", prefix + "built", prefix + "counted", prefix + "mark"}
	done, err := finishRebuild.Run(ctx, m.Client, keys, token, string(built.Epoch), built.Mark).Int()
	if err != nil {
		return fmt.Errorf("end the rebuild of partition %d: %w", partition, err)
	}
	if done == 0 {
		return dispatch.ErrLost
	}
	return nil
}
