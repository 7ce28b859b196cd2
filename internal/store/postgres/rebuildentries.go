package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// openSQL returns notifications that have not ended, as they were accepted, behind a place in that order. It leaves out
// what a producer wrote into the database and no process has allowed: it is in no backlog, and the relay checks it.
const openSQL = `
SELECT id, user_id, category, priority, send_at, expires_at, collapse_key, status, not_before,
	claimed_until - clock_timestamp(), accepted_at, clock_timestamp() - accepted_at, arrival, channel, token,
	attempts, policy_version, zone, deferrals > 0
FROM pacer.notifications n
WHERE ended_at IS NULL AND (accepted_at, id) > ($1, $2) AND NOT (status = 'waiting' AND ` + uncheckedSQL + `)
ORDER BY accepted_at, id LIMIT $3`

// open is a notification that has not ended.
type open struct {
	agenda.Entry
	status     string
	notBefore  time.Time
	leasedFor  time.Duration // from now on
	acceptedAt time.Time
	// claim is the token of the latest claim, attempts how many there were, basis what the latest was admitted by.
	claim    string
	attempts int
	basis    notification.Basis
	// deferred is true when the latest claim knew of a deferral.
	deferred bool
}

// scanOpen reads a row of openSQL.
func scanOpen(row pgx.CollectableRow) (open, error) {
	var o open
	var sendAt, expiresAt *time.Time
	var notBefore *int64
	var leased *time.Duration
	var channel notification.Channel
	err := row.Scan(&o.ID, &o.UserID, &o.Category, &o.Priority, &sendAt, &expiresAt, &o.CollapseKey, &o.status,
		&notBefore, &leased, &o.acceptedAt, &o.Age, &o.Arrival, &channel, &o.claim, &o.attempts,
		&o.basis.PolicyVersion, &o.basis.Zone, &o.deferred)
	o.Payload = agenda.OnChannel(channel)
	o.SendAt, o.ExpiresAt, o.notBefore = moment(sendAt), moment(expiresAt), limiterMoment(notBefore)
	if leased != nil {
		o.leasedFor = *leased
	}
	return o, err
}

// leaseBeyond is for how much longer than the claim the lease of a delivery in flight is restored: when the agenda
// grants the notification anew, it must be possible to claim it.
const leaseBeyond = 100 * time.Millisecond

// entry is the notification as its agenda takes it. One that is being sent stays with its worker until the lease ends.
// If it is not known under which grant, as after an import, it comes again by then as a retry; if it has ended, that
// one's claim is declined. now is the limiter's: Postgres's clock may be another, and tells only how long a lease is.
func (o open) entry(now time.Time) agenda.Entry {
	if o.status != string(notification.StatusSending) {
		return retriedAt(o.Entry, o.notBefore, o.status == string(notification.StatusRetrying))
	}
	leasedUntil := now.Add(o.leasedFor + leaseBeyond)
	g, ok := readToken(o.claim)
	if !ok {
		return retriedAt(o.Entry, leasedUntil, true)
	}
	e := retriedAt(o.Entry, o.notBefore, false)
	e.InFlight = &agenda.InFlight{
		Epoch: g.Epoch, Generation: g.Generation, AdmittedAt: throttle.MicrosOf(g.AdmittedAt), Attempt: o.attempts,
		LeasedUntil: leasedUntil, Basis: o.basis,
	}
	return e
}

// deferredBefore is what is known of its deferral. Only Redis knew of one since the latest claim. Nobody has deferred
// one that is coming: it stands in the outbox.
func (o open) deferredBefore(coming map[string]bool) agenda.Deferred {
	switch {
	case o.deferred:
		return agenda.WasDeferred
	case coming[o.ID]:
		return agenda.NotDeferred
	}
	return agenda.IfBlocked
}

// restoreEntries puts notifications that have not ended back into their backlogs, and sets their wake-ups. Those that
// are being sent stay with their workers.
func (r *rebuild) restoreEntries(ctx context.Context, tx querier) error {
	coming, err := readComing(ctx, tx)
	if err != nil {
		return err
	}
	at, id := time.Time{}, ""
	for {
		rows, err := tx.Query(ctx, openSQL, at, id, restoreBatch)
		if err != nil {
			return describe("read the notifications that have not ended", err)
		}
		batch, err := pgx.CollectRows(rows, scanOpen)
		if err != nil {
			return describe("read the notifications that have not ended", err)
		}
		if err := r.restoreBatch(ctx, batch, coming); err != nil {
			return err
		}
		if len(batch) < restoreBatch {
			return nil
		}
		at, id = batch[len(batch)-1].acceptedAt, batch[len(batch)-1].ID
	}
}

// comingMost is how many ids of the outbox a rebuild keeps in mind, those that are due first.
const comingMost = 50_000

// comingSQL returns the ids in the outbox.
const comingSQL = `
SELECT unnest(ids) FROM (SELECT ids FROM pacer.outbox WHERE NOT unchecked ORDER BY due_at LIMIT $1) rows LIMIT $1`

// readComing returns the notifications in the outbox.
func readComing(ctx context.Context, tx querier) (map[string]bool, error) {
	rows, err := tx.Query(ctx, comingSQL, comingMost)
	if err != nil {
		return nil, describe("read the outbox", err)
	}
	coming := map[string]bool{}
	var id string
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { coming[id] = true; return nil }); err != nil {
		return nil, describe("read the outbox", err)
	}
	return coming, nil
}

func (r *rebuild) restoreBatch(ctx context.Context, batch []open, coming map[string]bool) error {
	now, err := r.store.agendas.Now(ctx)
	if err != nil {
		return err
	}
	partitions := map[int][]agenda.Entry{}
	for _, o := range batch {
		partition := r.store.agendas.PartitionOf(o.UserID)
		if !r.rebuilds(partition) {
			continue
		}
		e := o.entry(now)
		e.Deferred = o.deferredBefore(coming)
		partitions[partition] = append(partitions[partition], e)
	}
	for partition, entries := range partitions {
		entries, err := r.withoutEnded(ctx, partition, entries)
		if err != nil {
			return err
		}
		r.count(entries)
		for part := range slices.Chunk(entries, putBatch) {
			if _, err := r.store.agendas.RestoreEntries(ctx, r.token, partition, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rebuild) count(entries []agenda.Entry) {
	for i := range entries {
		if entries[i].InFlight != nil {
			r.inFlight++
		} else {
			r.waiting++
		}
	}
}

// withoutEnded leaves out notifications that have ended in their agenda while a worker still has a claim. The end is
// written when the claim is over. Until then the notification must not be granted again.
func (r *rebuild) withoutEnded(ctx context.Context, partition int, entries []agenda.Entry) ([]agenda.Entry, error) {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	ended, err := r.store.agendas.HasEnd(ctx, partition, ids)
	if err != nil {
		return nil, err
	}
	open := entries[:0]
	for i, e := range entries {
		if !ended[i] {
			open = append(open, e)
		}
	}
	return open, nil
}
