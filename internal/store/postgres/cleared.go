package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// noteClearedSQL notes up to which moment some logs of a user are cleared.
const noteClearedSQL = `
INSERT INTO pacer.cleared AS c (user_id, log, until) SELECT $1, log, $3 FROM unnest($2::text[]) AS l(log)
ON CONFLICT (user_id, log) DO UPDATE SET until = greatest(c.until, excluded.until)`

const (
	// clearedSQL returns the logs of some users that were cleared.
	clearedSQL = "SELECT user_id, log, until FROM pacer.cleared WHERE user_id = ANY ($1)"
	// purgeClearedSQL removes what no window that is rebuilt looks back to. A user's own limits may look back further.
	purgeClearedSQL = `
DELETE FROM pacer.cleared c WHERE until < $1
	AND NOT EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[c.user_id]) AND p.limits <> '{}')`
)

// categoryLog and capLog name the logs of a user in pacer.cleared. A cap without a name is the user cap.
func categoryLog(category string) string { return "category:" + category }
func capLog(name string) string          { return "cap:" + name }

// NoteCleared notes that the windows of a user's category are about to be cleared, with those of the user cap and of
// the category's named caps: a rebuild counts only what is admitted from now on. What is admitted between now and the
// clear it counts, too.
func (s *Store) NoteCleared(ctx context.Context, userID, category string) error {
	now, err := s.agendas.Now(ctx)
	if err != nil {
		return err
	}
	logs := []string{capLog(""), categoryLog(category)}
	for _, rules := range s.agendas.PlanOf(userID, category).NamedCaps() {
		logs = append(logs, capLog(rules[0].Cap))
	}
	slices.Sort(logs) // several at once lock the rows in one order
	if _, err := s.db.Exec(ctx, noteClearedSQL, userID, logs, now.UnixMicro()); err != nil {
		return describe("note which windows are to be cleared", err)
	}
	return nil
}

// cleared says up to which moment the logs of a user were cleared.
type cleared map[string]throttle.Micros

// has reports whether an admission at a moment was cleared from a log.
func (c cleared) has(log string, at throttle.Micros) bool { return at <= c[log] }

// caps returns the names of those caps of a plan from which an admission at a moment was cleared.
func (c cleared) caps(plan throttle.Plan, at throttle.Micros) []string {
	var names []string
	if len(c) == 0 {
		return nil
	}
	if c.has(capLog(""), at) {
		names = append(names, "")
	}
	for _, rules := range plan.NamedCaps() {
		if c.has(capLog(rules[0].Cap), at) {
			names = append(names, rules[0].Cap)
		}
	}
	return names
}

// clearedOf reads what was cleared of some users, by user.
func clearedOf(ctx context.Context, db querier, users []string) (map[string]cleared, error) {
	rows, err := db.Query(ctx, clearedSQL, users)
	if err != nil {
		return nil, describe("read which windows were cleared", err)
	}
	all := map[string]cleared{}
	var user, log string
	var until int64
	if _, err := pgx.ForEachRow(rows, []any{&user, &log, &until}, func() error {
		if all[user] == nil {
			all[user] = cleared{}
		}
		all[user][log] = throttle.Micros(until)
		return nil
	}); err != nil {
		return nil, describe("read which windows were cleared", err)
	}
	return all, nil
}

// purgeCleared removes what was cleared longer ago than any window looks back.
func (s *Store) purgeCleared(ctx context.Context, keep time.Duration) error {
	if _, err := s.db.Exec(ctx, purgeClearedSQL, time.Now().Add(-keep).UnixMicro()); err != nil {
		return describe("purge which windows were cleared", err)
	}
	return nil
}
