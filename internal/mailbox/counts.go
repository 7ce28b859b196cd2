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
		Scheduled: n("scheduled"), Deferred: n("deferred"), Retrying: n("retrying"),
		Accepted: n("accepted") + n("j"), Delivered: n("D"), Failed: n("F"), Expired: n("E"), Cancelled: n("C"), Replaced: n("R"),
		Pulls: n("pulls") + n("x"), Deferrals: n("deferrals"), Attempts: n("attempts") + n("x"),
	}
}
