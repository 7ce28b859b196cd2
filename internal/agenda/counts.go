package agenda

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// PartitionCounts is what only Redis counts of a partition.
type PartitionCounts struct {
	Partition int
	// Epoch is the number of the state that counted; 0 when the partition has lost it, or is not guarded.
	Epoch            int64
	Pulls, Deferrals int64
}

// Counts reads what only Redis counts, of the partitions that can be asked; the error tells of those that can't.
func (s *Agendas) Counts(ctx context.Context) ([]PartitionCounts, error) {
	pipe := s.client.Pipeline()
	epochs, counts := make([]*redis.StringCmd, len(s.partitions)), make([]*redis.SliceCmd, len(s.partitions))
	for partition, prefix := range s.partitions {
		// The epoch first: what a rebuild in between leaves of the counts is less than what they were.
		epochs[partition] = pipe.Get(ctx, prefix+"epoch")
		counts[partition] = pipe.HMGet(ctx, prefix+"c", "pulls", "deferrals")
	}
	_, _ = pipe.Exec(ctx) // each command has its own answer
	var all []PartitionCounts
	var faults []error
	for partition := range s.partitions {
		err := epochs[partition].Err()
		if err == nil || errors.Is(err, redis.Nil) {
			err = counts[partition].Err()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("read the pulls and deferrals of partition %d: %w", partition, err))
			continue
		}
		n := func(i int) int64 {
			text, _ := counts[partition].Val()[i].(string)
			value, _ := strconv.ParseInt(text, 10, 64) // absent means 0
			return value
		}
		all = append(all, PartitionCounts{Partition: partition, Epoch: Epoch(epochs[partition].Val()).number(), Pulls: n(0), Deferrals: n(1)})
	}
	return all, errors.Join(faults...)
}

// partitionStats reads the hash of counts that the scripts keep.
func partitionStats(partition int, counts map[string]string) PartitionStats {
	n := func(field string) int64 {
		value, _ := strconv.ParseInt(counts[field], 10, 64) // absent means 0
		return value
	}
	return PartitionStats{
		Partition: partition,
		Queued:    n("waiting") - n("deferred"),
		Scheduled: n("scheduled"), Deferred: n("deferred"), Retrying: n("retrying"), Capped: n("capped"), Held: n("held"),
		Accepted: n("accepted"), Delivered: n("D"), Failed: n("F"), Expired: n("E"), Cancelled: n("C"), Replaced: n("R"),
		Pulls: n("pulls"), Deferrals: n("deferrals"), Attempts: n("attempts"),
	}
}

// Sum adds partitions up; the oldest is that of all. It is away when any of them is, and lacks that partition's figures.
func Sum(partitions []PartitionStats) PartitionStats {
	var t PartitionStats
	for _, l := range partitions {
		t.Away = t.Away || l.Away
		t.Queued += l.Queued
		t.Scheduled += l.Scheduled
		t.Deferred += l.Deferred
		t.Retrying += l.Retrying
		t.Capped += l.Capped
		t.Held += l.Held
		t.Sending += l.Sending
		t.UsersDeferred += l.UsersDeferred
		t.Accepted += l.Accepted
		t.Delivered += l.Delivered
		t.Failed += l.Failed
		t.Expired += l.Expired
		t.Cancelled += l.Cancelled
		t.Replaced += l.Replaced
		t.Pulls += l.Pulls
		t.Deferrals += l.Deferrals
		t.Attempts += l.Attempts
		if !l.OldestDeferred.IsZero() && (t.OldestDeferred.IsZero() || l.OldestDeferred.Before(t.OldestDeferred)) {
			t.OldestDeferred = l.OldestDeferred
		}
	}
	return t
}
