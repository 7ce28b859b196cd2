package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/store/transfer"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// nameCategories returns the admissions that stand in the logs of caps a category of the policy, for the case that
// Redis has forgotten their notifications. The same admission in the log of its category has come before, and counts
// instead.
func (s *Store) nameCategories(admissions []transfer.Admission, categories []string) {
	now := throttle.MicrosOf(time.Now())
	for i := range admissions {
		if a := &admissions[i]; a.Category == "" {
			a.Category = s.categoryUnder(a.Cap, a.UserID, now.Sub(throttle.Micros(a.At)), categories)
		}
	}
}

// categoryUnder returns the category under which an admission of an age is noted, of which only the log of a cap tells:
// one that the cap counts. It should count for no limit else, so it is one whose own windows the admission has left;
// and it may stand in the logs of further caps, so it is the one under the most. It is empty when the policy no longer
// has such a cap.
func (s *Store) categoryUnder(name, userID string, age time.Duration, categories []string) string {
	type choice struct {
		category string
		counted  int // 1 while its own windows hold the admission
		caps     int
	}
	var under []choice
	for _, category := range categories {
		plan := s.agendas.PlanOf(userID, category)
		if !plan.CountsFor(name) {
			continue
		}
		c := choice{category: category, caps: len(plan.NamedCaps())}
		for _, rule := range slices.Concat(plan.CategoryRules(), plan.Dormant) {
			if rule.Per > age {
				c.counted = 1
			}
		}
		under = append(under, c)
	}
	if len(under) == 0 {
		return ""
	}
	return slices.MinFunc(under, func(a, b choice) int {
		return cmp.Or(a.counted-b.counted, b.caps-a.caps, cmp.Compare(a.category, b.category))
	}).category
}

// importAdmissionsSQL notes admissions as attempts of their notifications. When Redis has forgotten the notification,
// the attempt gets an id of its own, which no notification can have, and which is the same for each log in which it
// stands.
const importAdmissionsSQL = `
INSERT INTO pacer.attempts
	(notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, counted)
SELECT coalesce(i.id, '~' || a.user_id || ':' || coalesce(nullif(a.id, ''), a.category || ':' || a.at)),
	a.generation, a.generation, a.user_id, coalesce(i.category, a.category), a.at,
	'imported', 'admitted before the store moved to Postgres', true
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bigint[])
	AS a(user_id, category, id, generation, at)
LEFT JOIN pacer.notifications i ON i.id = ANY (ARRAY[a.id]) AND i.user_id = ANY (ARRAY[a.user_id])
WHERE a.category <> '' OR i.id IS NOT NULL
ON CONFLICT DO NOTHING`

func importAdmissions(ctx context.Context, tx pgx.Tx, b *transfer.Batch) error {
	n := len(b.Admissions)
	if n == 0 {
		return nil
	}
	users, categories, ids := make([]string, n), make([]string, n), make([]string, n)
	generations, moments := make([]int32, n), make([]int64, n)
	for i, a := range b.Admissions {
		users[i], categories[i], ids[i], moments[i] = a.UserID, a.Category, a.ID, a.At
		generations[i] = int32(a.Generation)
	}
	_, err := tx.Exec(ctx, importAdmissionsSQL, users, categories, ids, generations, moments)
	return err
}

// purgeImportedSQL removes old admissions that were imported without their notifications. Every other attempt is
// removed with its notification. Limits of a user's own may look back further.
const purgeImportedSQL = `
DELETE FROM pacer.attempts WHERE notification_id >= '~' AND notification_id = ANY (ARRAY (
	SELECT notification_id FROM pacer.attempts a WHERE notification_id >= '~' AND ended_at < now() - $1::interval
		AND NOT EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[a.user_id]) AND p.limits <> '{}')
		ORDER BY notification_id LIMIT $2))`

func (s *Store) purgeImported(ctx context.Context, keep time.Duration) error {
	if _, err := s.db.Exec(ctx, purgeImportedSQL, keep, purgeBatch); err != nil {
		return describe("purge imported admissions", err)
	}
	return nil
}
