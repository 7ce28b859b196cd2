package postgres

// Statements are those that run under load, by a name each.
func Statements() map[string]string {
	return map[string]string{
		"insert": insertSQL, "claim": claimSQL, "settle": settleSQL, "known": knownSQL, "refused": refusedSQL, "settled": settledSQL, "reserve": reserveSQL, "outbox": outboxSQL,
		"recent": recentSQL, "ends": endsSQL, "purge": purgeSQL, "list": listSQL, "list_user": listUserSQL, "open": openSQL,
		"view": viewSQL, "attempts": attemptsSQL, "fillers": fillersSQL, "opted_out": optedOutSQL,
	}
}
