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

	"github.com/pacer-notify/pacer/internal/agenda/keyspace"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/stats"
)

// PartitionCounts are the counts of a partition that only Redis keeps.
type PartitionCounts struct {
	Partition int
	// Epoch is the number of the state in which they were counted; 0 when that is not known, or the partition is not
	// guarded.
	Epoch            int64
	Pulls, Deferrals int64
	// ByCategory are the deferrals of each category, in a guarded store.
	ByCategory map[string]int64
}

// Counts reads the counts that only Redis keeps. It returns those of the partitions that can be reached, and the joined
// errors of the others.
func (a *Agendas) Counts(ctx context.Context) ([]PartitionCounts, error) {
	pipe := a.Client.Pipeline()
	epochs := make([][2]*redis.StringCmd, a.Partitions()) // the present one, and the one that was lost
	counts := make([]*redis.MapStringStringCmd, a.Partitions())
	for partition, prefix := range a.Prefixes() {
		// The epoch comes first: a rebuild in between can only lower the counts.
		// One command for both would be refused while a slot of a cluster moves, and go-redis would then send all of
		// the pipeline again, beside what it redirects.
		epochs[partition] = [2]*redis.StringCmd{pipe.Get(ctx, prefix+"epoch"), pipe.Get(ctx, prefix+"counted")}
		counts[partition] = pipe.HGetAll(ctx, prefix+"c")
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	var all []PartitionCounts
	var faults []error
	for partition := range a.Prefixes() {
		epoch, err := epochOf(epochs[partition])
		if err = cmp.Or(err, counts[partition].Err()); err != nil {
			faults = append(faults, fmt.Errorf("read the pulls and deferrals of partition %d: %w", partition, err))
			continue
		}
		c := PartitionCounts{Partition: partition, Epoch: epoch, ByCategory: map[string]int64{}}
		for field, text := range counts[partition].Val() {
			n, _ := strconv.ParseInt(text, 10, 64) // the scripts write nothing else
			category, ofCategory := strings.CutPrefix(field, "deferrals:")
			switch {
			case ofCategory:
				c.ByCategory[category] = n
			case field == "pulls":
				c.Pulls = n
			case field == "deferrals":
				c.Deferrals = n
			}
		}
		all = append(all, c)
	}
	return all, errors.Join(faults...)
}

// epochOf returns the number of the epoch that a partition has, or of the one that it has lost; 0 when there is
// neither.
func epochOf(replies [2]*redis.StringCmd) (number int64, err error) {
	for _, reply := range replies {
		switch err := reply.Err(); {
		case err == nil:
			return keyspace.Epoch(reply.Val()).Number(), nil
		case !errors.Is(err, redis.Nil):
			return 0, err
		}
	}
	return 0, nil
}

// endReasons are those for which the scripts themselves end notifications undelivered, see finish in notification.lua.
var endReasons = []stats.EndReason{
	{Status: "expired", Reason: notification.ReasonMaxDefer},
	{Status: "expired", Reason: "expires_at"},
	{Status: "failed", Reason: "crash_loop"},
	{Status: "expired", Reason: notification.ReasonQuietHours},
	{Status: "expired", Reason: notification.ReasonOverflow},
}

// addPartition adds the counts of a partition to those of all: the hash of counts that the scripts keep, and the sizes
// of its sets.
func addPartition(all *stats.Counts, partition int, r *partitionReplies) {
	counts := r.counts.Val()
	n := func(field string) int64 {
		value, _ := strconv.ParseInt(counts[field], 10, 64) // absent means 0
		return value
	}
	one := stats.Partition{
		Partition: partition, Queued: n("waiting") - n("deferred"), Deferred: n("deferred"),
		Sending: r.flight.Val() + n("joined"),
		Steps:   n("pulls") + n("attempts"), HeldOver: r.over.Val(),
	}
	one.SweptAt, _ = strconv.ParseInt(r.swept.Val(), 10, 64) // absent means never
	all.Partitions[partition] = one
	all.Queued += one.Queued
	all.Scheduled += n("scheduled")
	all.Deferred += one.Deferred
	all.Retrying += n("retrying")
	all.Sending += one.Sending
	all.UsersDeferred += r.users.Val()
	if oldest := r.oldest.Val(); len(oldest) == 1 {
		at := time.UnixMicro(int64(oldest[0].Score))
		all.OldestDeferredSeconds = max(all.OldestDeferredSeconds, time.Since(at).Seconds())
	}

	for _, reason := range endReasons {
		if reason.Count = n(reason.Status + " " + reason.Reason); reason.Count > 0 {
			all.Reasons = append(all.Reasons, reason)
		}
	}

	w := &all.Waiting
	w.Throttle += n("deferred") - n("capped") - n("quiet") - n("company")
	w.UserCap += n("capped")
	w.QuietHours += n("quiet")
	w.Digest += n("company")
	w.Retry += n("retrying") - n("held")
	w.Provider += n("held")
	w.Scheduled += n("scheduled")

	t := &all.Totals
	t.Accepted += n("accepted")
	t.Delivered += n(keyspace.States.Delivered)
	t.Failed += n(keyspace.States.Failed)
	t.Expired += n(keyspace.States.Expired)
	t.Cancelled += n(keyspace.States.Cancelled)
	t.Replaced += n(keyspace.States.Replaced)
	t.Pulls += n("pulls")
	t.Deferrals += n("deferrals")
	t.Attempts += n("attempts")
}
