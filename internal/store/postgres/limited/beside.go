package limited

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/batch"
)

// A producer or an operator may keep a row locked for as long as its transaction stays open. No statement waits for
// that: it is locked out after a moment, and has done nothing, see SetLockWait. Whoever needs the row leaves
// the statement that it shares with others.
const (
	// SetLockWait is the SQL with which a transaction sets how long it waits for a lock: longer than most transactions
	// of pacer take and than a migration waits, and hardly noticed by those who share the statement.
	SetLockWait = "set_config('lock_timeout', '50ms', true)"
	// SiftTime bounds for how long the ids of a statement are searched for those that are locked: for one of 500 it is
	// long enough.
	SiftTime = 600 * time.Millisecond
)

// RefusedAlone reports whether the error of a statement may be that of one of its requests.
func RefusedAlone(err error) bool { return ValueRefused(err) || LockedOut(err) }

// unlockedSQL returns which of some notifications nobody has locked.
const unlockedSQL = "SELECT id FROM pacer.notifications WHERE id = ANY ($1) FOR NO KEY UPDATE SKIP LOCKED"

// BesideLocked runs requests as one statement. When Postgres refuses it for a value, it takes the statement apart until
// those that are refused are by themselves: else all would be refused again, for as long as the bad one is among them.
// When the statement is locked out, it is run again without those whose notifications are locked.
func BesideLocked[Request, Result any](
	ctx context.Context, db DB, requests []Request, id func(Request) string,
	run func(context.Context, []Request) ([]Result, error),
) []batch.Outcome[Result] {
	ctx, cancel := Bounded(ctx, db.limit)
	defer cancel()
	runPart := func(part []Request) ([]Result, error) { return run(ctx, part) }
	outcomes := batch.Divide(requests, runPart, ValueRefused)
	var ids []string
	for i, o := range outcomes {
		if LockedOut(o.Err) {
			ids = append(ids, id(requests[i]))
		}
	}
	if len(ids) == 0 {
		return outcomes
	}
	free, err := db.unlocked(ctx, ids)
	if err != nil {
		return outcomes
	}
	var again []Request
	var places []int
	for i, o := range outcomes {
		if LockedOut(o.Err) && slices.Contains(free, id(requests[i])) {
			again, places = append(again, requests[i]), append(places, i)
		}
	}
	for k, o := range batch.Divide(again, runPart, RefusedAlone) {
		outcomes[places[k]] = o
	}
	return outcomes
}

// unlocked returns which of some notifications nobody has locked.
func (d DB) unlocked(ctx context.Context, ids []string) ([]string, error) {
	rows, err := d.pool.Query(ctx, unlockedSQL, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
