package postgres

import "golang.org/x/sync/semaphore"

// Statements are those that run under load, by a name each.
func Statements() map[string]string {
	return map[string]string{
		"insert": insertSQL, "claim": claimSQL, "settle": settleSQL, "known": knownSQL, "refused": refusedSQL, "settled": settledSQL, "reserve": reserveSQL, "outbox": outboxSQL, "take_unplaced": takeUnplacedSQL, "acknowledge": acknowledgeSQL,
		"ends": endsSQL, "purge": purgeSQL, "list": listSQL, "list_user": listUserSQL, "open": openSQL,
		"view": viewSQL, "attempts": attemptsSQL, "fillers": fillersSQL, "opted_out": optedOutSQL,
	}
}

// PlaceAtMost sets how many notifications may be on their way to Redis at once.
func (r *Record) PlaceAtMost(n int64) { r.placer.room = semaphore.NewWeighted(n) }
