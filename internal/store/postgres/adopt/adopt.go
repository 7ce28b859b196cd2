// Package adopt moves what Redis keeps into a new database.
package adopt

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/maintenance"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/refusal"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/rebuild"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Adoption is a transaction in which a new database takes over what a store on Redis keeps: all of it or nothing.
type Adoption struct {
	// Mark is what the partitions are to remember of the database.
	Mark string
	// Notifications and Admissions count what was taken over.
	Notifications, Admissions int64

	agendas *agenda.Agendas
	tx      pgx.Tx
}

const (
	// beginAdoptionSQL waits for the lock of rebuilds, and says that the relay will put the notifications into their
	// backlogs, so that none is noted in the outbox, and that they were counted when they were accepted.
	beginAdoptionSQL = `
SELECT pg_advisory_xact_lock($1), set_config('pacer.outbox', 'none', true), set_config('pacer.counted', 'yes', true),
	set_config('idle_in_transaction_session_timeout', '0', true), set_config('enable_seqscan', 'off', true)`
	// usedSQL reports whether partitions were ever built from the database, or notifications adopted into it: it was
	// born with one mark.
	usedSQL = `
SELECT EXISTS (SELECT FROM pacer.partitions) OR EXISTS (SELECT id FROM pacer.marks ORDER BY id OFFSET 1 LIMIT 1)`
)

// Into calls fill, unless the database was used before; then it returns nil. One process adopts at a time, while none
// rebuilds; others wait. Afterwards the partitions lack their epochs: the relay builds them from the database.
func Into(ctx context.Context, pool *pgxpool.Pool, agendas *agenda.Agendas, fill func(*Adoption) error,
) (done *Adoption, err error) {
	var used bool
	if err = pool.QueryRow(ctx, usedSQL).Scan(&used); err == nil && !used {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, beginAdoptionSQL, int64(seam.RebuildLock)); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, usedSQL).Scan(&used); err != nil || used { // by another process, meanwhile
				return err
			}
			done = &Adoption{agendas: agendas, tx: tx}
			if err := tx.QueryRow(ctx, rebuild.MarkSQL).Scan(&done.Mark); err != nil {
				return err
			}
			return fill(done)
		})
	}
	if err != nil {
		return nil, limited.Describe("move what Redis keeps to the new database", err)
	}
	return done, nil
}

const (
	// adoptedColumns are what has happened to a notification.
	adoptedColumns = `accepted_at, status, reason, detail, generation, attempts, failures, crashes, deferrals, history,
	not_before, ended_at, admitted_at, arrival, released`
	// adoptNotificationsSQL inserts notifications, but those whose id or key is there already.
	adoptNotificationsSQL = `
INSERT INTO pacer.notifications (` + columns.GivenColumns + ", " + adoptedColumns + `)
SELECT ` + columns.GivenColumns + ", " + adoptedColumns + `
FROM unnest(` + columns.GivenArrays + `, $18::json[]) AS a(` + columns.GivenColumns + `, past), json_to_record(past) AS p(
	accepted_at timestamptz, status text, reason text, detail text, generation int, attempts int, failures int,
	crashes int, deferrals int, history text, not_before bigint, ended_at timestamptz, admitted_at bigint,
	arrival bigint, released boolean)
ON CONFLICT DO NOTHING`
	// skipArrivalsSQL has what is accepted from now on arrive behind $1.
	skipArrivalsSQL = "SELECT setval('pacer.arrivals', greatest(nextval('pacer.arrivals'), $1::bigint / 100 * 100 + 100))"
	// othersSQL finds an id of $1 that is there for another user than in $2; "" for none.
	othersSQL = `
SELECT coalesce(min(n.id), '') FROM unnest($1::text[], $2::text[]) AS a(id, user_id)
JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id]) WHERE n.user_id <> a.user_id`
)

// Take inserts notifications. One that comes twice is one. Of those with the same idempotency key, whose claim on Redis
// may have ended too early, the first keeps it. An id that two users have is refused: one of them would be lost.
func (a *Adoption) Take(ctx context.Context, states []*agenda.State, content []*notification.Notification) error {
	pasts, left, last := make([]string, len(states)), int64(len(states)), int64(0)
	for i, state := range states {
		pasts[i], last = a.pastOf(state), max(last, state.Arrival)
	}
	if _, err := a.tx.Exec(ctx, skipArrivalsSQL, last); err != nil {
		return err
	}
	for try := 0; left > 0 && try < 2; try++ {
		tag, err := a.tx.Exec(ctx, adoptNotificationsSQL, append(columns.GivenArgs(content), pasts)...)
		if err != nil {
			return err
		}
		left, a.Notifications = left-tag.RowsAffected(), a.Notifications+tag.RowsAffected()
		for _, n := range content { // whose key is there comes once more without it
			n.IdempotencyKey, n.Fingerprint = "", ""
		}
	}
	var id string
	args := columns.GivenArgs(content)
	if err := a.tx.QueryRow(ctx, othersSQL, args[0], args[1]).Scan(&id); err != nil || id == "" {
		return err
	}
	return refusal.New("two users have a notification with the id %[1]q, and Postgres keeps one of an id: give one up, which is then not sent, with redis-cli DEL of one of pacer:{push-*}:n:%[1]s", id)
}

// pastOf is what has happened to a notification, as JSON. What was being sent comes again when its lease has ended.
func (a *Adoption) pastOf(s *agenda.State) string {
	status, notBefore := string(s.Status), s.NotBefore
	switch s.Status { //nolint:exhaustive // the others are called the same
	case notification.StatusSending:
		status, notBefore = string(notification.StatusRetrying), time.Now().Add(a.agendas.Lease())
	case notification.StatusQueued, notification.StatusScheduled:
		status = "waiting"
	}
	micros := func(t time.Time) *int64 {
		if t.IsZero() {
			return nil
		}
		return new(t.UnixMicro())
	}
	text, _ := json.Marshal(map[string]any{ // which it can always be written as
		"accepted_at": s.AcceptedAt, "status": status, "reason": columns.Storable(s.Reason), "detail": columns.Storable(s.Detail),
		"generation": s.Generation, "attempts": s.Attempts, "failures": s.Failures, "crashes": s.Crashes,
		"deferrals": s.Deferrals, "history": columns.Storable(s.Lines), "not_before": micros(notBefore),
		"ended_at": columns.Timestamp(s.EndedAt), "admitted_at": cmp.Or(micros(s.AdmittedAt), new(int64)),
		"arrival": s.Arrival, "released": s.Priority == notification.Released,
	})
	return string(text)
}

// adoptAdmissionsSQL notes admissions as attempts of their notifications. Where Redis has forgotten the notification,
// the attempt gets an id that no notification can have, and that is the same for each log in which it stands.
const adoptAdmissionsSQL = `
WITH a AS (
	SELECT *, coalesce(substring(token FROM '^(.+)#[0-9]+$'), token || '/' || at) AS id,
		coalesce(substring(token FROM '#([0-9]+)$')::int, 0) AS generation
	FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS a(user_id, category, token, at)
)
INSERT INTO pacer.attempts
	(notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, counted)
SELECT coalesce(n.id, '~' || a.id || ' ' || a.user_id), a.generation, a.generation, a.user_id,
	coalesce(n.category, a.category), a.at, 'imported', 'admitted before the store moved to Postgres', true
FROM a LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id]) AND n.user_id = ANY (ARRAY[a.user_id])
WHERE a.category <> '' OR n.id IS NOT NULL
ON CONFLICT DO NOTHING`

// Count notes admissions, after all notifications. The policy names the categories.
func (a *Adoption) Count(ctx context.Context, logged []maintenance.Logged, categories []string) error {
	n, now := len(logged), throttle.MicrosOf(time.Now())
	users, of, tokens, moments := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	for i, l := range logged {
		users[i], of[i], tokens[i], moments[i] = l.UserID, l.Category, l.Token, int64(l.At)
		if l.Category == "" {
			of[i] = a.categoryUnder(l.Cap, l.UserID, now.Sub(l.At), categories)
		}
	}
	tag, err := a.tx.Exec(ctx, adoptAdmissionsSQL, users, of, tokens, moments)
	a.Admissions += tag.RowsAffected()
	return err
}

// categoryUnder returns the category under which an admission of an age is noted, of which only the log of a cap tells:
// one that the cap counts. It should count for no limit else, so its own windows should have lost the admission; and
// that may stand in the logs of further caps, so it is the one under the most. It is empty when the policy has no such
// cap any more.
func (a *Adoption) categoryUnder(name, userID string, age time.Duration, categories []string) (under string) {
	least := math.MaxInt
	for _, category := range categories {
		plan := a.agendas.SettingsOf(userID, category).Plan
		surplus, rules := -len(plan.NamedCaps()), slices.Concat(plan.CategoryRules(), plan.Dormant)
		if slices.ContainsFunc(rules, func(rule throttle.Rule) bool { return rule.Per > age }) {
			surplus += 1 + throttle.MaxNamedCaps
		}
		if plan.CountsFor(name) && surplus < least {
			under, least = category, surplus
		}
	}
	return under
}
