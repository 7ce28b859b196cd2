package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

const (
	// openPage is how many notifications that have not ended are read at a time.
	openPage = 1000
	// openPause is how long the checker waits between two pages: to read all of them must not slow others down.
	openPause = 20 * time.Millisecond

	// standingSQL reads what Postgres knows of notifications, the version of each row, which every change raises, and
	// whether the relay has yet to check it.
	standingSQL = `
SELECT n.id, n.user_id, n.category, n.channel, n.priority, n.send_at, n.expires_at, n.collapse_key, n.status,
	n.not_before, n.claimed_until - clock_timestamp(), n.accepted_at, clock_timestamp() - n.accepted_at, n.arrival,
	n.token, n.attempts, n.admitted_at, n.policy_version, n.zone, n.deferrals > 0, n.xmin::text, ` + uncheckedSQL

	// openSQL returns notifications that have not ended, as they were accepted, behind a place in that order.
	openSQL = standingSQL + `, false FROM pacer.notifications n
WHERE n.ended_at IS NULL AND (n.accepted_at, n.id) > ($1, $2) ORDER BY n.accepted_at, n.id LIMIT $3`

	// lookUpSQL returns those of some ids, also those that have ended, and whether the relay will tell Redis of their
	// ends. With $2 it also looks for the others in the outbox, and reads the whole of it.
	lookUpSQL = standingSQL + `, EXISTS (SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY['~' || n.id]))
	OR $2 AND n.id IN (SELECT unnest(ids) FROM pacer.outbox)
FROM pacer.notifications n WHERE n.id = ANY ($1)`
)

// open is a notification that has not ended.
type open struct {
	agenda.Entry
	channel    notification.Channel
	status     notification.Status
	notBefore  time.Time
	leasedFor  time.Duration // from now on
	acceptedAt time.Time
	// claim is the token of the latest claim, attempts how many there were, admittedAt and basis what the latest was
	// admitted by.
	claim      string
	attempts   int
	admittedAt throttle.Micros
	basis      notification.Basis
	// deferred is true when the latest claim knew of a deferral.
	deferred bool
	version  string
	// unchecked is true when the relay has yet to check it, coming when it will tell Redis of it.
	unchecked, coming bool
}

// collectOpen reads the rows of openSQL or lookUpSQL.
func collectOpen(rows pgx.Rows, err error) ([]open, error) {
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o open, err error) {
		var sendAt, expiresAt *time.Time
		var notBefore *int64
		var leased *time.Duration
		err = row.Scan(&o.ID, &o.UserID, &o.Category, &o.channel, &o.Priority, &sendAt, &expiresAt, &o.CollapseKey,
			&o.status, &notBefore, &leased, &o.acceptedAt, &o.Age, &o.Arrival, &o.claim, &o.attempts, &o.admittedAt,
			&o.basis.PolicyVersion, &o.basis.Zone, &o.deferred, &o.version, &o.unchecked, &o.coming)
		o.Payload = agenda.OnChannel(o.channel)
		o.SendAt, o.ExpiresAt, o.notBefore = moment(sendAt), moment(expiresAt), limiterMoment(notBefore)
		if leased != nil {
			o.leasedFor = *leased
		}
		return o, err
	})
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	return all, nil
}

// eachOpen calls do with all notifications that have not ended, page by page as they were accepted.
func eachOpen(ctx context.Context, db querier, do func([]open) error) error {
	at, id := time.Time{}, ""
	for {
		page, err := collectOpen(db.Query(ctx, openSQL, at, id, openPage))
		if err != nil {
			return err
		}
		if err := do(page); err != nil || len(page) < openPage {
			return err
		}
		at, id = page[len(page)-1].acceptedAt, page[len(page)-1].ID
	}
}

// inFlight are the admissions of those that are being sent.
func inFlight(all []open) (admitted []admission) {
	for i := range all {
		o := &all[i]
		if o.status != notification.StatusSending {
			continue
		}
		a := admission{Admission: invariant.Admission{
			ID: o.ID, UserID: o.UserID, Category: o.Category, Channel: string(o.channel), At: o.admittedAt,
		}}
		if g, ok := readToken(o.claim); ok {
			a.grant = agenda.GrantName(o.ID, g.Generation)
		}
		admitted = append(admitted, a)
	}
	return admitted
}

// EachOpen implements [invariant.Source].
func (s *Store) EachOpen(ctx context.Context, before time.Time, do func(invariant.Open) error) error {
	return eachOpen(ctx, s.db, func(page []open) error {
		for i := range page {
			o := &page[i]
			if !o.acceptedAt.Before(before) {
				continue
			}
			since := o.acceptedAt
			if o.SendAt.After(since) {
				since = o.SendAt
			}
			if err := do(invariant.Open{
				ID: o.ID, UserID: o.UserID, Category: o.Category, Channel: string(o.channel), Since: since,
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
