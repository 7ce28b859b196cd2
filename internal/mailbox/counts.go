package mailbox

import "strconv"

// laneStats reads the hash of counts that the scripts keep.
func laneStats(lane int, counts map[string]string) LaneStats {
	n := func(field string) int64 {
		value, _ := strconv.ParseInt(counts[field], 10, 64) // absent means 0
		return value
	}
	waiting := n("waiting") + n("j") - n("x")
	return LaneStats{
		Lane:      lane,
		Queued:    waiting - n("deferred"),
		Scheduled: n("scheduled"), Deferred: n("deferred"), Retrying: n("retrying"), Capped: n("capped"), Held: n("held"),
		Accepted: n("accepted") + n("j"), Delivered: n("D"), Failed: n("F"), Expired: n("E"), Cancelled: n("C"), Replaced: n("R"),
		Pulls: n("pulls") + n("x"), Deferrals: n("deferrals"), Attempts: n("attempts") + n("x"),
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
