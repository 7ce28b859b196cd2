package stream

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
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
SELECT n.id, n.user_id, n.category, n.channel, n.target, n.digest_id, n.status = 'sending' AND n.digest_id NOT IN ('', n.id) AND ` + columns.CarrierSQL + ` IS NULL, ` + columns.PlaceSQL + `, n.send_at, n.expires_at, n.collapse_key, n.group_key,
	n.status, n.not_before, n.claimed_until - clock_timestamp(), n.accepted_at, clock_timestamp() - n.accepted_at, n.arrival,
	n.token, n.attempts, n.admitted_at, n.policy_version, n.zone, n.deferrals > 0, n.xmin::text, ` + columns.UncheckedSQL

	// openSQL returns notifications that have not ended, as they were accepted, behind a place in that order.
	openSQL = standingSQL + `, false FROM pacer.notifications n
WHERE n.ended_at IS NULL AND (n.accepted_at, n.id) > ($1, $2) ORDER BY n.accepted_at, n.id LIMIT $3`

	// lookUpSQL returns those of some ids, also those that have ended, and whether the relay will tell Redis of their
	// ends. With $2 it also looks for the others in the outbox, and reads the whole of it.
	lookUpSQL = standingSQL + `, EXISTS (SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY['~' || n.id]))
	OR $2 AND n.id IN (SELECT unnest(ids) FROM pacer.outbox)
FROM pacer.notifications n WHERE n.id = ANY ($1)`
)

// Open is a notification that has not ended.
type Open struct {
	agenda.Entry
	Channel    notification.Channel
	Status     notification.Status
	NotBefore  time.Time
	LeasedFor  time.Duration // from now on
	AcceptedAt time.Time
	// Claim is the token of the latest claim, attempts how many there were, AdmittedAt and Basis what the latest was
	// admitted by.
	Claim      string
	Attempts   int
	AdmittedAt throttle.Micros
	Basis      notification.Basis
	// DigestID is the carrier of the digest that it is in; empty for none.
	DigestID string
	// Deferred is true when the latest claim knew of a deferral.
	Deferred bool
	Version  string
	// Unchecked is true when the relay has yet to check it, Coming when it will tell Redis of it.
	Unchecked, Coming bool
}

// IsItem reports whether it is being sent with another one, without an admission of its own.
func (o *Open) IsItem() bool {
	return o.Status == notification.StatusSending && o.DigestID != "" && o.DigestID != o.ID
}

// collectOpen reads the rows of openSQL or lookUpSQL.
func collectOpen(rows pgx.Rows, err error) ([]Open, error) {
	if err != nil {
		return nil, limited.Describe("read the notifications that have not ended", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Open, err error) {
		var sendAt, expiresAt *time.Time
		var notBefore *int64
		var leased *time.Duration
		var left bool // its carrier has gone on without it
		o.Of = &notification.Notification{}
		err = row.Scan(&o.ID, &o.UserID, &o.Category, &o.Channel, &o.Of.To, &o.DigestID, &left, &o.Priority, &sendAt,
			&expiresAt, &o.CollapseKey,
			&o.Of.GroupKey, &o.Status, &notBefore, &leased, &o.AcceptedAt, &o.Age, &o.Arrival, &o.Claim, &o.Attempts,
			&o.AdmittedAt, &o.Basis.PolicyVersion, &o.Basis.Zone, &o.Deferred, &o.Version, &o.Unchecked, &o.Coming)
		o.Payload = agenda.OnChannel(o.Channel)
		o.SendAt, o.ExpiresAt = columns.Moment(sendAt), columns.Moment(expiresAt)
		o.NotBefore = columns.LimiterMoment(notBefore)
		if left {
			o.Status, o.DigestID = "waiting", ""
		}
		o.Alone = o.Attempts > 0 && o.Status != notification.StatusSending
		if leased != nil {
			o.LeasedFor = *leased
		}
		return o, err
	})
	if err != nil {
		return nil, limited.Describe("read the notifications that have not ended", err)
	}
	return all, nil
}

// EachOpen calls do with all notifications that have not ended, page by page as they were accepted.
func EachOpen(ctx context.Context, db limited.Querier, do func([]Open) error) error {
	at, id := time.Time{}, ""
	for {
		page, err := collectOpen(db.Query(ctx, openSQL, at, id, openPage))
		if err != nil {
			return err
		}
		if err := do(page); err != nil || len(page) < openPage {
			return err
		}
		at, id = page[len(page)-1].AcceptedAt, page[len(page)-1].ID
	}
}

// InFlight are the admissions of those that are being sent.
func InFlight(all []Open) (admitted []Admission) {
	for i := range all {
		o := &all[i]
		if o.Status != notification.StatusSending || o.IsItem() {
			continue
		}
		a := Admission{Admission: invariant.Admission{
			ID: o.ID, UserID: o.UserID, Category: o.Category, Channel: string(o.Channel), At: o.AdmittedAt,
		}}
		if g, ok := columns.ReadToken(o.Claim); ok {
			a.Grant = agenda.GrantName(o.ID, g.Generation)
		}
		admitted = append(admitted, a)
	}
	return admitted
}

// LookUp reads what Postgres knows of some notifications, also of those that have ended. With whole it looks for them
// in all of the outbox, too.
func LookUp(ctx context.Context, db limited.Querier, ids []string, whole bool) ([]Open, error) {
	rows, err := db.Query(ctx, lookUpSQL, ids, whole)
	return collectOpen(rows, err)
}
