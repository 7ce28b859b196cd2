package agenda

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/queue"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// ErrLost says that a partition has lost its state, or is being rebuilt. Nothing is granted until that is done.
var ErrLost = dispatch.ErrLost

// lost returns ErrLost for the error with which scripts say so.
func lost(err error) error {
	if err != nil && strings.Contains(err.Error(), "NOEPOCH") {
		return ErrLost
	}
	return moved(err)
}

// layout names how a partition keeps its state. It is part of the identity, so a version that keeps it in another way
// rebuilds each partition once.
const layout = "agendas"

// Identity names the server that the partitions are on. Another server, or the same one after a restart, has another
// identity: it may have older state.
func (a *Agendas) Identity(ctx context.Context) (string, error) {
	if _, cluster := a.cfg.Direct.(*redis.ClusterClient); cluster {
		// The partitions are on several servers. So a partition's epoch tells only whether it has its state.
		return layout + " cluster", nil
	}
	info, err := a.client.Info(ctx, "server", "replication").Result()
	if err != nil {
		info, err = a.client.Info(ctx).Result() // the embedded engine takes no section
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

// Epoch names a state of a partition: how often the partition was built, and on which server.
type Epoch string

// NewEpoch makes the epoch of that number on that server.
func NewEpoch(number int64, identity string) Epoch {
	return Epoch(strconv.FormatInt(number, 10) + " " + identity)
}

// number is how often the partition was built; 0 when there is no epoch.
func (e Epoch) number() int64 {
	text, _, _ := strings.Cut(string(e), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// inRebuild is a Lua function that reports whether a partition is in a rebuild, on the data on which the rebuild began.
// A server that has restarted, or was promoted, has the token perhaps, but not what was restored last.
const inRebuild = script.Here + `local function in_rebuild(key, token)
  return redis.call('GET', key) == token .. ' ' .. here()
end
`

// notInRebuild is what a script returns that in_rebuild refuses.
const notInRebuild = `return redis.error_reply('NOEPOCH the partition is in another rebuild, or was lost again')`

// requireRebuild stands before the script that restores windows.
const requireRebuild = "do\n" + inRebuild + "if not in_rebuild(KEYS[1] .. 'rebuild', ARGV[1]) then " + notInRebuild +
	" end\nend\n"

// requireRebuildOf stands before the script that accepts, which works in a rebuild if its second argument is a token.
const requireRebuildOf = "if ARGV[2] ~= '' and ARGV[2] ~= 'epoch' then\n" + inRebuild +
	"if not in_rebuild(KEYS[1] .. 'rebuild', ARGV[2]) then " + notInRebuild + " end\nend\n"

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
// of these returns [ErrLost] when another rebuild of a partition has begun meanwhile, or its server has other data than
// when it was stopped: what was restored may be missing there. After an error, those that were stopped count as lost.
// Stop returns those that had not lost their state on the server with this identity.
func (a *Agendas) Stop(ctx context.Context, partitions []int, token, identity string) (whole []int, err error) {
	for _, partition := range partitions {
		prefix := a.partitions[partition]
		keys := []string{prefix + "rebuild", prefix + "epoch", prefix + "counted", prefix + "built"}
		had, err := stop.Run(ctx, a.client, keys, token, identity).Int()
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
// [ErrLost] when another rebuild of them has begun meanwhile.
func (a *Agendas) Empty(ctx context.Context, partitions map[int]Kept, token string) error {
	cluster, ok := a.cfg.Direct.(*redis.ClusterClient)
	if !ok {
		return a.wipe(ctx, a.cfg.Direct, partitions, token)
	}
	masters, err := a.mastersOf(ctx, cluster, slices.Collect(maps.Keys(partitions)))
	if err != nil {
		return err
	}
	for _, master := range masters {
		if err := a.wipe(ctx, master, partitions, token); err != nil {
			return err
		}
	}
	return nil
}

// mastersOf lists the servers that partitions are on. So it does not matter when another server is away.
func (a *Agendas) mastersOf(
	ctx context.Context, cluster *redis.ClusterClient, partitions []int,
) ([]*redis.Client, error) {
	var masters []*redis.Client
	for _, partition := range partitions {
		master, err := cluster.MasterForKey(ctx, a.partitions[partition])
		if err != nil {
			return nil, fmt.Errorf("find the server of partition %d: %w", partition, err)
		}
		if !slices.Contains(masters, master) {
			masters = append(masters, master)
		}
	}
	return masters, nil
}

// wipeBatch is how many keys are removed at a time.
const wipeBatch = 1000

// wipe removes what a server holds of the partitions: their state, and also their wake-ups, because a rebuild sets a
// new one for each user for whom something waits, and old ones would be in its way.
func (a *Agendas) wipe(ctx context.Context, node redis.UniversalClient, partitions map[int]Kept, token string,
) error {
	for _, pattern := range []string{"pacer:{push-*", "asynq:{push-*"} {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, wipeBatch).Result()
			if err != nil {
				return fmt.Errorf("list what is left of the partitions: %w", err)
			}
			if err := a.remove(ctx, token, a.staleOf(keys, partitions)); err != nil {
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
var removeKeys = script.NewWhenFull(inRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then
  ` + notInRebuild + `
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
func (a *Agendas) remove(ctx context.Context, token string, keys map[int][]string) error {
	for partition, of := range keys {
		guarded := append([]string{a.partitions[partition] + "rebuild"}, of...)
		if err := removeKeys.Run(ctx, a.client, guarded, token).Err(); err != nil {
			return fmt.Errorf("partition %d: %w", partition, lost(err))
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
func (a *Agendas) staleOf(keys []string, partitions map[int]Kept) map[int][]string {
	stale := map[int][]string{}
	for _, key := range keys {
		for partition, kept := range partitions {
			if a.stale(key, partition, kept) {
				stale[partition] = append(stale[partition], key)
				break
			}
		}
	}
	return stale
}

// stale reports whether a key is state of a partition that a rebuild replaces. The epoch of the counts stays until
// these are gone.
func (a *Agendas) stale(key string, partition int, kept Kept) bool {
	if name, ours := strings.CutPrefix(key, a.partitions[partition]); ours {
		return !slices.Contains(buildParts, name) && !(kept.Ends && name == "z") &&
			!(kept.Windows && throttle.IsWindow(name))
	}
	name, queued := strings.CutPrefix(key, tasksPrefix(partition))
	return queued && (strings.HasPrefix(name, "t:") || slices.Contains(queueParts, name))
}

// RestoreEntries puts back notifications of one partition that wait or are in flight, in the order in which they
// arrived.
func (a *Agendas) RestoreEntries(ctx context.Context, token string, partition int, entries []Entry) ([]Placed, error) {
	return a.acceptUnder(ctx, token, partition, entries)
}

// Admission is one that counts in the windows of a backlog.
type Admission struct {
	At throttle.Micros
	// Channel is the notification's; empty when it is not known.
	Channel notification.Channel
	// InFlight names the grant of a delivery that is in flight, see [GrantName]; empty for all others.
	InFlight string
}

// GrantName names a grant in the logs of the limits, so that a settlement finds what it refunds.
func GrantName(id string, generation int) string { return id + "#" + strconv.Itoa(generation) }

// WindowPart is a part of the admissions that count in the windows of a backlog, oldest first.
type WindowPart struct {
	Admitted []Admission
	// Before is how many stand in the parts before this one. More says that another part follows.
	Before int
	More   bool
	// Cleared are the names of the caps in which these admissions count no more; "" is the user cap.
	Cleared []string
}

// RestoreWindow counts a part of a backlog's admissions once more. The parts must come in order, one after the other:
// where a window of a counter begins depends on everything before it. To restore the latest part again changes nothing.
// The deliveries in flight must have been restored before.
func (a *Agendas) RestoreWindow(ctx context.Context, token string, b dispatch.Backlog, part WindowPart) error {
	plan := a.cfg.Settings(b.UserID, b.Category).Plan.WithoutCaps(part.Cleared)
	args := make([]any, 0, 22+len(part.Admitted))
	args = append(args, token, b.Category, b.UserID, strconv.Itoa(len(part.Admitted)), strconv.Itoa(part.Before),
		flag(part.More))
	for _, a := range part.Admitted {
		text := strconv.FormatInt(int64(a.At), 10)
		if len(plan.NamedCaps()) > 0 && a.Channel != "" {
			text += " " + string(a.Channel)
		}
		if a.InFlight != "" {
			text += "\t" + a.InFlight
		}
		args = append(args, text)
	}
	args = plan.Args(args)
	if err := a.restore.Run(ctx, a.client, a.keys(b.Partition), args...).Err(); err != nil {
		return fmt.Errorf("restore the window of category %s in partition %d: %w", b.Category, b.Partition, lost(err))
	}
	return nil
}

// restorePause pauses the queue of a partition, which Redis may have forgotten.
//
//	KEYS[1]  the token of the rebuild that the partition is in
//	KEYS[2]  asynq's key of the paused queue
//	ARGV[1]  the token of the rebuild that pauses it
//	ARGV[2]  what pacer writes into that key
//	Result   1
var restorePause = script.NewWhenFull(inRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then
  ` + notInRebuild + `
end
redis.call('SET', KEYS[2], ARGV[2])
return 1`)

// RestorePause pauses the queue of a partition before the partition goes on.
func (a *Agendas) RestorePause(ctx context.Context, token string, partition int) error {
	key, by := queue.Paused(partition)
	keys := []string{a.partitions[partition] + "rebuild", key}
	if err := restorePause.Run(ctx, a.client, keys, token, by).Err(); err != nil {
		return fmt.Errorf("pause partition %d: %w", partition, lost(err))
	}
	return nil
}

// finishRebuild sets the epoch, where the partition was built, and the mark, unless the state was lost again during the
// rebuild.
var finishRebuild = script.NewWhenFull(inRebuild + `if not in_rebuild(KEYS[1], ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('MSET', KEYS[2], ARGV[2], KEYS[3], here(), KEYS[5], ARGV[3])
return 1`)

// EndRebuild lets the partition go on. It returns [ErrLost] when the state was lost again meanwhile.
func (a *Agendas) EndRebuild(ctx context.Context, token string, partition int, built Built) error {
	prefix := a.partitions[partition]
	keys := []string{prefix + "rebuild", prefix + "epoch", prefix + "built", prefix + "counted", prefix + "mark"}
	done, err := finishRebuild.Run(ctx, a.client, keys, token, string(built.Epoch), built.Mark).Int()
	if err != nil {
		return fmt.Errorf("end the rebuild of partition %d: %w", partition, err)
	}
	if done == 0 {
		return ErrLost
	}
	return nil
}

// Now returns the time on Redis's clock.
func (a *Agendas) Now(ctx context.Context) (time.Time, error) {
	now, err := a.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return now, nil
}
