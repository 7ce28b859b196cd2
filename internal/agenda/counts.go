package agenda

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// LaneCounts is what only Redis counts of a lane.
type LaneCounts struct {
	Lane int
	// Epoch is the number of the state that counted; 0 when the lane has lost it, or is not guarded.
	Epoch            int64
	Pulls, Deferrals int64
}

// Counts reads what only Redis counts, of the lanes that can be asked; the error tells of those that can't.
func (s *Store) Counts(ctx context.Context) ([]LaneCounts, error) {
	pipe := s.client.Pipeline()
	epochs, counts := make([]*redis.StringCmd, len(s.lanes)), make([]*redis.SliceCmd, len(s.lanes))
	for lane, prefix := range s.lanes {
		// The epoch first: what a rebuild in between leaves of the counts is less than what they were.
		epochs[lane] = pipe.Get(ctx, prefix+"epoch")
		counts[lane] = pipe.HMGet(ctx, prefix+"c", "pulls", "deferrals")
	}
	_, _ = pipe.Exec(ctx) // each command has its own answer
	var all []LaneCounts
	var faults []error
	for lane := range s.lanes {
		err := epochs[lane].Err()
		if err == nil || errors.Is(err, redis.Nil) {
			err = counts[lane].Err()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("read the pulls and deferrals of lane %d: %w", lane, err))
			continue
		}
		n := func(i int) int64 {
			text, _ := counts[lane].Val()[i].(string)
			value, _ := strconv.ParseInt(text, 10, 64) // absent means 0
			return value
		}
		all = append(all, LaneCounts{Lane: lane, Epoch: Epoch(epochs[lane].Val()).number(), Pulls: n(0), Deferrals: n(1)})
	}
	return all, errors.Join(faults...)
}

// laneStats reads the hash of counts that the scripts keep.
func laneStats(lane int, counts map[string]string) LaneStats {
	n := func(field string) int64 {
		value, _ := strconv.ParseInt(counts[field], 10, 64) // absent means 0
		return value
	}
	return LaneStats{
		Lane:      lane,
		Queued:    n("waiting") - n("deferred"),
		Scheduled: n("scheduled"), Deferred: n("deferred"), Retrying: n("retrying"), Capped: n("capped"), Held: n("held"),
		Accepted: n("accepted"), Delivered: n("D"), Failed: n("F"), Expired: n("E"), Cancelled: n("C"), Replaced: n("R"),
		Pulls: n("pulls"), Deferrals: n("deferrals"), Attempts: n("attempts"),
	}
}

// Sum adds lanes up; the oldest is that of all. It is away when any of them is, and lacks that lane's figures.
func Sum(lanes []LaneStats) LaneStats {
	var t LaneStats
	for _, l := range lanes {
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
