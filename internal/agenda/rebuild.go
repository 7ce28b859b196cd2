package agenda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/script"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// ErrLost says that a partition has lost its state, or is being rebuilt: nothing goes out of it until that is done.
var ErrLost = dispatch.ErrLost

// lost recognises the error by which scripts say so.
func lost(err error) error {
	if err != nil && strings.Contains(err.Error(), "NOEPOCH") {
		return ErrLost
	}
	return moved(err)
}

// layout names how a partition keeps its state. It is part of the identity, so that a partition that an older version of this
// program has built counts as lost, and is built anew.
const layout = "agendas"

// Identity names the server that the partitions are on, so that another one, or the same after a restart, is known as such: it
// may have older state.
func (s *Agendas) Identity(ctx context.Context) (string, error) {
	if _, cluster := s.cfg.Direct.(*redis.ClusterClient); cluster {
		return layout + " cluster", nil // partitions lie on several servers; each partition's epoch tells only whether it has state
	}
	info, err := s.client.Info(ctx, "server", "replication").Result()
	if err != nil {
		info, err = s.client.Info(ctx).Result() // the embedded engine takes no section
	}
	if err != nil {
		return "", fmt.Errorf("ask Redis who it is: %w", err)
	}
	run, replication := infoField(info, "run_id"), infoField(info, "master_replid")
	return layout + " server " + run + " " + replication, nil
}

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

// NewEpoch makes one.
func NewEpoch(number int64, identity string) Epoch {
	return Epoch(strconv.FormatInt(number, 10) + " " + identity)
}

// number is 0 when there is none.
func (e Epoch) number() int64 {
	text, _, _ := strings.Cut(string(e), " ")
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Lost lists the partitions that have another epoch than they should. The error is about those that can't be asked; each partition is
// judged by itself.
func (s *Agendas) Lost(ctx context.Context, should func(partition int) Epoch) ([]int, error) {
	pipe := s.client.Pipeline()
	epochs := make([]*redis.StringCmd, len(s.partitions))
	for partition, prefix := range s.partitions {
		epochs[partition] = pipe.Get(ctx, prefix+"epoch")
	}
	_, _ = pipe.Exec(ctx) // each command has its own answer
	var partitions []int
	var faults []error
	for partition, epoch := range epochs {
		switch err := epoch.Err(); {
		case err != nil && !errors.Is(err, redis.Nil):
			faults = append(faults, fmt.Errorf("read the epoch of partition %d: %w", partition, err))
		case Epoch(epoch.Val()) != should(partition):
			partitions = append(partitions, partition)
		}
	}
	return partitions, errors.Join(faults...)
}

// BeginRebuild stops the partitions and removes all their state and their wake-ups. Until [Agendas.EndRebuild] only calls with the same token change
// them.
func (s *Agendas) BeginRebuild(ctx context.Context, partitions []int, token string) error {
	pipe := s.client.Pipeline()
	for _, partition := range partitions {
		pipe.Del(ctx, s.partitions[partition]+"epoch")
		pipe.Set(ctx, s.partitions[partition]+"rebuild", token, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("stop %d partitions: %w", len(partitions), err)
	}
	cluster, ok := s.cfg.Direct.(*redis.ClusterClient)
	if !ok {
		return s.wipe(ctx, s.cfg.Direct, partitions)
	}
	masters, err := s.mastersOf(ctx, cluster, partitions)
	if err != nil {
		return err
	}
	for _, master := range masters {
		if err := s.wipe(ctx, master, partitions); err != nil {
			return err
		}
	}
	return nil
}

// mastersOf lists the servers that partitions lie on: another that is away is none of their business.
func (s *Agendas) mastersOf(ctx context.Context, cluster *redis.ClusterClient, partitions []int) ([]*redis.Client, error) {
	var masters []*redis.Client
	for _, partition := range partitions {
		master, err := cluster.MasterForKey(ctx, s.partitions[partition])
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

// wipe removes what a server holds of the partitions: their state, and their wake-ups, since a rebuild sets one for each user
// who waits, and what is left of a queue that lost a part would be in its way.
func (s *Agendas) wipe(ctx context.Context, node redis.UniversalClient, partitions []int) error {
	for _, pattern := range []string{"pacer:{push-*", "asynq:{push-*"} {
		for cursor := uint64(0); ; {
			keys, next, err := node.Scan(ctx, cursor, pattern, wipeBatch).Result()
			if err != nil {
				return fmt.Errorf("list what is left of the partitions: %w", err)
			}
			if err := s.remove(ctx, node, slices.DeleteFunc(keys, func(key string) bool { return !s.stale(key, partitions) })); err != nil {
				return fmt.Errorf("remove what is left of the partitions: %w", err)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

// remove removes keys, but for tasks that were put aside for people to look at.
func (s *Agendas) remove(ctx context.Context, node redis.UniversalClient, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	pipe := node.Pipeline()
	states := map[string]*redis.StringCmd{}
	for _, key := range keys {
		if _, name, _ := strings.Cut(key, "}:"); strings.HasPrefix(key, "asynq:") && strings.HasPrefix(name, "t:") {
			states[key] = pipe.HGet(ctx, key, "state")
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	pipe = node.Pipeline()
	for _, key := range keys {
		if state, task := states[key]; !task || state.Val() != "archived" {
			pipe.Unlink(ctx, key)
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

// queueParts are the places of a partition's asynq queue in which tasks stand. What asynq counts, what is archived and whether
// the partition is paused stays.
var queueParts = []string{"pending", "active", "lease", "scheduled", "retry"}

// stale tells whether a key is state of one of the partitions. Ends that the store has not been told of are none: nobody else
// knows of them.
func (s *Agendas) stale(key string, partitions []int) bool {
	for _, partition := range partitions {
		if name, ours := strings.CutPrefix(key, s.partitions[partition]); ours {
			return name != "rebuild" && name != "z"
		}
		if name, queued := strings.CutPrefix(key, tasksPrefix(partition)); queued {
			return strings.HasPrefix(name, "t:") || slices.Contains(queueParts, name)
		}
	}
	return false
}

// RestoreEntries puts waiting notifications of one partition back, in the order in which they arrived.
func (s *Agendas) RestoreEntries(ctx context.Context, token string, partition int, entries []Entry) ([]Placed, error) {
	return s.acceptUnder(ctx, token, partition, entries)
}

// RestoreWindow counts admissions of a backlog again, oldest first.
func (s *Agendas) RestoreWindow(ctx context.Context, token string, box dispatch.Backlog, admitted []throttle.Micros) error {
	args := make([]any, 0, 20+len(admitted))
	args = append(args, token, box.Category, box.UserID, strconv.Itoa(len(admitted)))
	for _, at := range admitted {
		args = append(args, strconv.FormatInt(int64(at), 10))
	}
	args = s.cfg.Settings(box.UserID, box.Category).Plan.Args(args)
	if err := s.restore.Run(ctx, s.client, s.keys(box.Partition), args...).Err(); err != nil {
		return fmt.Errorf("restore the window of category %s in partition %d: %w", box.Category, box.Partition, lost(err))
	}
	return nil
}

// finishRebuild sets the epoch, and where the partition was built, when the rebuild was not overtaken by another loss.
var finishRebuild = script.NewWhenFull(here + `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('MSET', KEYS[2], ARGV[2], KEYS[3], here())
return 1`)

// EndRebuild lets the partition go on. [ErrLost] says that it has been lost again meanwhile.
func (s *Agendas) EndRebuild(ctx context.Context, token string, partition int, epoch Epoch) error {
	prefix := s.partitions[partition]
	done, err := finishRebuild.Run(ctx, s.client, []string{prefix + "rebuild", prefix + "epoch", prefix + "built"}, token, string(epoch)).Int()
	if err != nil {
		return fmt.Errorf("end the rebuild of partition %d: %w", partition, err)
	}
	if done == 0 {
		return ErrLost
	}
	return nil
}

// Now is Redis's clock.
func (s *Agendas) Now(ctx context.Context) (time.Time, error) {
	now, err := s.client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return now, nil
}
