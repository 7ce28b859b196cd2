package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// leaseBeyond is for how much longer than the claim the lease of a delivery in flight is restored: when the agenda
// grants the notification anew, it must be possible to claim it.
const leaseBeyond = 100 * time.Millisecond

// entry is the notification as its agenda takes it. One that is being sent stays with its worker until the lease ends.
// If it is not known under which grant, as after an import, it comes again by then as a retry; if it has ended, that
// one's claim is declined.
func (o *open) entry() agenda.Entry {
	e := o.Entry
	e.Arrival, e.Deferred = o.acceptedAt, o.deferredBefore()
	if o.status != notification.StatusSending {
		return retriedAt(e, o.notBefore, o.status == notification.StatusRetrying)
	}
	leasedUntil := o.leasedUntil.Add(leaseBeyond)
	g, ok := readToken(o.claim)
	if !ok {
		return retriedAt(e, leasedUntil, true)
	}
	e = retriedAt(e, o.notBefore, false)
	e.InFlight = &agenda.InFlight{
		Epoch: g.Epoch, Generation: g.Generation, AdmittedAt: throttle.MicrosOf(g.AdmittedAt), Attempt: o.attempts,
		LeasedUntil: leasedUntil, Basis: o.basis,
	}
	return e
}

// deferredBefore is what is known of its deferral. Only Redis knew of one since the latest claim. Nobody has deferred
// one that has yet to reach its backlog.
func (o *open) deferredBefore() agenda.Deferred {
	switch {
	case o.deferred:
		return agenda.WasDeferred
	case o.coming:
		return agenda.NotDeferred
	}
	return agenda.IfBlocked
}

// restoreEntries puts notifications that have not ended back into their backlogs, and sets their wake-ups. Those that
// are being sent stay with their workers, and are returned. What a producer wrote into the database and no process has
// allowed is in no backlog, and the relay checks it; placing is what a relay may have placed of it already.
func (r *rebuild) restoreEntries(ctx context.Context, tx querier, placing []string) (sent []admission, err error) {
	err = eachOpen(ctx, tx, func(page []open) error {
		sent = append(sent, inFlight(page)...)
		partitions := map[int][]agenda.Entry{}
		for i := range page {
			o := &page[i]
			partition := r.store.agendas.PartitionOf(o.UserID)
			if o.unchecked && o.status == "waiting" && !slices.Contains(placing, o.ID) || !r.rebuilds(partition) {
				continue
			}
			partitions[partition] = append(partitions[partition], o.entry())
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

// restoreIn restores entries of one partition. It leaves out notifications that have ended in their agenda while a
// worker still has a claim. The end is written when the claim is over. Until then the notification must not be granted
// again.
func (r *rebuild) restoreIn(ctx context.Context, partition int, entries []agenda.Entry) error {
	ids := make([]string, len(entries))
	for i := range entries {
		ids[i] = entries[i].ID
	}
	ended, err := r.store.agendas.HasEnd(ctx, partition, ids)
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
	for part := range slices.Chunk(open, putBatch) {
		if _, err := r.store.agendas.RestoreEntries(ctx, r.token, partition, part); err != nil {
			return err
		}
	}
	return nil
}
