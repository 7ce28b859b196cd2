package stream

import (
	"context"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Source is what the checker reads. It implements [invariant.Source].
type Source struct{ stores *seam.Stores }

// NewSource makes a Source.
func NewSource(stores *seam.Stores) *Source { return &Source{stores} }

// freshFor is how long a time freshSQL goes through: a round of the checker, or some that were missed. In a longer one
// most users were admitted, and going through all of them reads less at a time.
const freshFor = throttle.Micros(10 * time.Minute / time.Microsecond)

// freshSQL returns the next $4 users after $3 who were admitted between $1 and $2. OFFSET 0 has it begin with these
// moments.
const freshSQL = `
SELECT DISTINCT user_id FROM (
	SELECT user_id FROM pacer.attempts WHERE admitted_at > $1 AND admitted_at <= $2 AND counted OFFSET 0
) admitted WHERE user_id > $3 ORDER BY user_id LIMIT $4`

// Admissions implements [invariant.Source].
func (s *Source) Admissions(ctx context.Context, after, until throttle.Micros,
	window func(userID string) time.Duration, do func(invariant.Admission) error,
) error {
	fresh := Everyone(s.stores.DB, after.Time(), window)
	fresh.until = until
	if until-after <= freshFor {
		fresh.Users = func(ctx context.Context, last string) ([]string, error) {
			return collectUsers(s.stores.DB.Query(ctx, freshSQL, int64(after), int64(until), last, streamUsers))
		}
	}
	return fresh.Each(ctx, func(p Page) error {
		for _, a := range p.Admitted {
			if err := do(a.Admission); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachOpen implements [invariant.Source].
func (s *Source) EachOpen(ctx context.Context, before time.Time, do func(invariant.Open) error) error {
	return EachOpen(ctx, s.stores.DB, func(page []Open) error {
		for i := range page {
			o := &page[i]
			if !o.AcceptedAt.Before(before) {
				continue
			}
			since := o.AcceptedAt
			if o.SendAt.After(since) {
				since = o.SendAt
			}
			if err := do(invariant.Open{
				ID: o.ID, UserID: o.UserID, Category: o.Category, Channel: string(o.Channel), Since: since,
				ExpiresAt: o.ExpiresAt,
			}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openPause):
			return nil
		}
	})
}

// noteClearedSQL notes up to which moment some logs of a user are cleared.
const noteClearedSQL = `
INSERT INTO pacer.cleared AS c (user_id, log, until) SELECT $1, log, $3 FROM unnest($2::text[]) AS l(log)
ON CONFLICT (user_id, log) DO UPDATE SET until = greatest(c.until, excluded.until)`

// NoteCleared notes that the windows of a user's category are about to be cleared, with those of the user cap and of
// the category's named caps: a rebuild counts only what is admitted from now on. What is admitted between now and the
// clear it counts, too.
func (s *Source) NoteCleared(ctx context.Context, userID, category string) error {
	now, err := s.stores.Agendas.Now(ctx)
	if err != nil {
		return err
	}
	logs := []string{CapLog(""), CategoryLog(category)}
	for _, rules := range s.stores.Agendas.SettingsOf(userID, category).Plan.NamedCaps() {
		logs = append(logs, CapLog(rules[0].Cap))
	}
	slices.Sort(logs) // several at once lock the rows in one order
	if _, err := s.stores.DB.Exec(ctx, noteClearedSQL, userID, logs, now.UnixMicro()); err != nil {
		return limited.Describe("note which windows are to be cleared", err)
	}
	return nil
}
