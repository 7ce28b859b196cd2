package outlook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/stats"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Inspection is what can be seen of a backlog from outside.
type Inspection struct {
	throttle.Usage
	// Waiting counts what is in the backlog, Deferred those of it that wait for a slot.
	Waiting, Deferred int
}

// Peek returns how far the rules of a backlog are used, and how many wait in it.
func (a *Agendas) Peek(ctx context.Context, b dispatch.Backlog) (Inspection, error) {
	in := Inspection{}
	plan := a.SettingsOf(b.UserID, b.Category).Plan
	key := throttle.Key{User: b.UserID, Category: b.Category}
	usage, err := throttle.NewRedis(a.Client, a.PrefixOf).Peek(ctx, key, plan)
	if err != nil {
		return in, err
	}
	in.Usage = usage
	pipe := a.Client.Pipeline()
	name := b.Category + ":" + b.UserID
	prefix := a.Prefixes()[b.Partition]
	waiting := pipe.ZCard(ctx, prefix+"w:"+name)
	blocked := pipe.HGet(ctx, prefix+"a:"+b.UserID, b.Category)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return in, fmt.Errorf("count what waits in category %s: %w", b.Category, err)
	}
	in.Waiting = int(waiting.Val())
	in.Deferred = deferredOf(blocked.Val(), waiting.Val())
	return in, nil
}

// partitionReplies are the replies that [Agendas.Stats] needs about a partition.
type partitionReplies struct {
	counts        *redis.MapStringStringCmd
	swept         *redis.StringCmd
	users, flight *redis.IntCmd
	over          *redis.IntCmd // backlogs that are still held after their moment
	oldest        *redis.ZSliceCmd
}

// heldGrace is how long after its moment a backlog that quiet hours or a digest's wait still hold counts as left
// behind: longer than a wake-up is late on a busy deployment, and than clocks are apart.
const heldGrace = 30 * time.Second

// Stats reads the counts of every partition, and marks those that can't be reached. It returns an error when no
// partition can be reached. It costs the same however many notifications wait.
func (a *Agendas) Stats(ctx context.Context) (stats.Counts, error) {
	pipe := a.Client.Pipeline()
	replies := make([]partitionReplies, a.Partitions())
	over := strconv.FormatInt(time.Now().Add(-heldGrace).UnixMicro(), 10)
	for partition, prefix := range a.Prefixes() {
		replies[partition] = partitionReplies{
			counts: pipe.HGetAll(ctx, prefix+"c"), swept: pipe.HGet(ctx, prefix+"sweep", "last"),
			users: pipe.HLen(ctx, prefix+"v"), flight: pipe.ZCard(ctx, prefix+"e"),
			over:   pipe.ZCount(ctx, prefix+"opens", "-inf", over),
			oldest: pipe.ZRangeWithScores(ctx, prefix+"o", 0, 0),
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	all := stats.Counts{Partitions: make([]stats.Partition, a.Partitions())}
	away, fault := 0, error(nil)
	for partition, r := range replies {
		all.Partitions[partition].Partition = partition
		if err := cmp.Or(r.counts.Err(), r.users.Err(), r.flight.Err(), r.over.Err(), r.oldest.Err()); err != nil {
			all.Partial, all.Partitions[partition].Unreachable = true, true
			away, fault = away+1, err
			continue
		}
		addPartition(&all, partition, &r)
	}
	if away == len(replies) {
		return stats.Counts{}, fmt.Errorf("read the counts of the partitions: %w", fault)
	}
	return all, nil
}

// deferredOf returns how many of a backlog are deferred, from the backlog's field in its agenda: "next rule capped
// since fresh …".
func deferredOf(field string, waiting int64) int {
	fields := strings.Fields(field)
	if len(fields) < 5 || fields[0] == "0" {
		return 0
	}
	fresh, _ := strconv.ParseInt(fields[4], 10, 64) // the scripts write nothing else
	return int(max(0, waiting-fresh))
}

// usersBatch is how many users of a partition are read at a time.
const usersBatch = 100

// EachUser calls do, with some at a time, for the users of a partition for whom something waits. A user whose agenda
// changes meanwhile may come twice, or not at all.
func (a *Agendas) EachUser(ctx context.Context, partition int, do func(userIDs []string) error) error {
	for cursor := uint64(0); ; {
		entries, next, err := a.Client.ZScan(ctx, a.Prefixes()[partition]+"wakeups", cursor, "", usersBatch).Result()
		if err != nil {
			return fmt.Errorf("list the users of partition %d: %w", partition, err)
		}
		users := make([]string, 0, len(entries)/2)
		for i := 0; i+1 < len(entries); i += 2 { // each user is followed by its score
			users = append(users, entries[i])
		}
		if len(users) > 0 {
			if err := do(users); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
