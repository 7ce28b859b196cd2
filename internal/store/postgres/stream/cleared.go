package stream

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// clearedSQL returns the logs of some users that were cleared.
const clearedSQL = "SELECT user_id, log, until FROM pacer.cleared WHERE user_id = ANY ($1)"

// CategoryLog names the log of a category in pacer.cleared.
func CategoryLog(category string) string { return "category:" + category }

// CapLog names the log of a cap there; without a name that of the user cap.
func CapLog(name string) string { return "cap:" + name }

// Cleared says up to which moment the logs of a user were cleared.
type Cleared map[string]throttle.Micros

// Has reports whether an admission at a moment was cleared from a log.
func (c Cleared) Has(log string, at throttle.Micros) bool { return at <= c[log] }

// Caps returns the names of those caps of a plan from which an admission at a moment was cleared.
func (c Cleared) Caps(plan throttle.Plan, at throttle.Micros) []string {
	var names []string
	if len(c) == 0 {
		return nil
	}
	if c.Has(CapLog(""), at) {
		names = append(names, "")
	}
	for _, rules := range plan.NamedCaps() {
		if c.Has(CapLog(rules[0].Cap), at) {
			names = append(names, rules[0].Cap)
		}
	}
	return names
}

// clearedOf reads what was cleared of some users, by user.
func clearedOf(ctx context.Context, db limited.Querier, users []string) (map[string]Cleared, error) {
	rows, err := db.Query(ctx, clearedSQL, users)
	if err != nil {
		return nil, limited.Describe("read which windows were cleared", err)
	}
	all := map[string]Cleared{}
	var user, log string
	var until int64
	if _, err := pgx.ForEachRow(rows, []any{&user, &log, &until}, func() error {
		if all[user] == nil {
			all[user] = Cleared{}
		}
		all[user][log] = throttle.Micros(until)
		return nil
	}); err != nil {
		return nil, limited.Describe("read which windows were cleared", err)
	}
	return all, nil
}
