package rebuild

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// leaseBeyond is for how much longer than the claim the lease of a delivery in flight is restored: when the agenda
// grants the notification anew, it must be possible to claim it.
const leaseBeyond = 100 * time.Millisecond

// entryOf is a notification as its agenda takes it. One that is being sent stays with its worker until the lease ends.
// If it is not known under which grant, as after an import, it comes again by then as a retry; if it has ended, that
// one's claim is declined. now is the limiter's: Postgres's clock may be another, and tells only how long a lease is.
func entryOf(o *stream.Open, now time.Time, coming map[string]bool) agenda.Entry {
	e := o.Entry
	e.Deferred = deferredBefore(o, coming)
	if o.Status != notification.StatusSending {
		return e.RetriedAt(o.NotBefore, o.Status == notification.StatusRetrying)
	}
	if o.IsItem() {
		e.InFlight = &agenda.InFlight{Carrier: o.DigestID}
		return e
	}
	leasedUntil := now.Add(o.LeasedFor + leaseBeyond)
	g, ok := columns.ReadToken(o.Claim)
	if !ok {
		return e.RetriedAt(leasedUntil, true)
	}
	e = e.RetriedAt(o.NotBefore, false)
	e.InFlight = &agenda.InFlight{
		Epoch: g.Epoch, Generation: g.Generation, AdmittedAt: throttle.MicrosOf(g.AdmittedAt), Attempt: o.Attempts,
		LeasedUntil: leasedUntil, Basis: o.Basis,
	}
	return e
}

// deferredBefore is what is known of its deferral. Only Redis knew of one since the latest claim. Nobody has deferred
// one that is coming: it stands in the outbox.
func deferredBefore(o *stream.Open, coming map[string]bool) agenda.Deferred {
	switch {
	case o.Deferred:
		return agenda.WasDeferred
	case coming[o.ID]:
		return agenda.NotDeferred
	}
	return agenda.IfBlocked
}

// restoreEntries puts notifications that have not ended back into their backlogs, and sets their wake-ups. Those that
// are being sent stay with their workers, and are returned. What a producer wrote into the database and no process has
// allowed is in no backlog, and the relay checks it.
func (r *run) restoreEntries(ctx context.Context, tx limited.Querier) (sent []stream.Admission, err error) {
	coming, err := readComing(ctx, tx)
	if err != nil {
		return nil, err
	}
	err = stream.EachOpen(ctx, tx, func(page []stream.Open) error {
		now, err := r.by.stores.Agendas.Now(ctx)
		if err != nil {
			return err
		}
		sent = append(sent, stream.InFlight(page)...)
		partitions := map[int][]agenda.Entry{}
		for i := range page {
			o := &page[i]
			if partition := r.by.stores.Agendas.PartitionOf(o.UserID); !o.Unchecked && r.rebuilds(partition) {
				partitions[partition] = append(partitions[partition], entryOf(o, now, coming))
			}
		}
		for partition, entries := range partitions {
			if err := r.restoreIn(ctx, partition, entries); err != nil {
				return err
			}
		}
		return nil
	})
	return sent, err
}

// comingMost is how many ids of the outbox a rebuild keeps in mind, those that are due first.
const comingMost = 50_000

// comingSQL returns the ids in the outbox.
const comingSQL = `
SELECT unnest(ids) FROM (SELECT ids FROM pacer.outbox WHERE NOT unchecked ORDER BY due_at LIMIT $1) rows LIMIT $1`

// readComing returns the notifications in the outbox.
func readComing(ctx context.Context, tx limited.Querier) (map[string]bool, error) {
	rows, err := tx.Query(ctx, comingSQL, comingMost)
	if err != nil {
		return nil, limited.Describe("read the outbox", err)
	}
	coming := map[string]bool{}
	var id string
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { coming[id] = true; return nil }); err != nil {
		return nil, limited.Describe("read the outbox", err)
	}
	return coming, nil
}

// restoreIn restores entries of one partition. It leaves out notifications that have ended in their agenda while a
// worker still has a claim. The end is written when the claim is over. Until then the notification must not be granted
// again.
func (r *run) restoreIn(ctx context.Context, partition int, entries []agenda.Entry) error {
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	ended, err := r.by.stores.Agendas.HasEnd(ctx, partition, ids)
	if err != nil {
		return err
	}
	open := make([]agenda.Entry, 0, len(entries))
	for i := range entries {
		switch {
		case ended[i]:
			continue
		case entries[i].InFlight != nil:
			r.inFlight++
		default:
			r.waiting++
		}
		open = append(open, entries[i])
	}
	for part := range slices.Chunk(open, agenda.EntriesAtOnce) {
		if _, err := r.by.stores.Agendas.RestoreEntries(ctx, r.token, partition, part); err != nil {
			return err
		}
	}
	return nil
}
