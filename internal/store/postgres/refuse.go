package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// refusalLooks is how often each process looks again at what was refused, until it ends as failed.
const refusalLooks = 30

// lookAgain looks again at what was refused. A batch of which it allows nothing is the last of the round, so that much
// of it does not hold up the rest of the relay's work. When a pass has come to the end, the next one waits for its
// time.
func (r *Relay) lookAgain(ctx context.Context, away *partitionsAway) error {
	if r.again == (outboxPlace{}) {
		if time.Since(r.refusedAt) < r.store.cfg.RefusalPatience/refusalLooks {
			return nil
		}
		r.refusedAt = time.Now()
	}
	for {
		part, err := r.emptyPart(ctx, away, true, r.again)
		if err != nil {
			return err
		}
		if r.again = part.last; part.found < outboxBatch {
			r.again = outboxPlace{}
			return nil
		}
		if part.allowed == 0 {
			return nil
		}
	}
}

// noteRefusedSQL notes since when notifications have been refused.
const noteRefusedSQL = "UPDATE pacer.outbox SET refused_at = clock_timestamp() WHERE id = ANY ($1) AND refused_at IS NULL"

// refuse checks what producers wrote into the database, and returns what may be placed. What this process refuses may
// be what the others allow: they have a newer policy, or a channel that this one does not have yet. So it stays in the
// outbox, where every process looks at it again and again, and ends as failed only once all of them have refused it for
// Config.RefusalPatience. It then stays for one more look, which takes it out of its backlog if it is in one. What was
// accepted in another way has been checked, and is never refused here.
func (r *Relay) refuse(ctx context.Context, tx *limited.Tx, batch []outboxed) (allowed []*outboxed, err error) {
	var refused []string
	var ends []agenda.End
	for i := range batch {
		o := &batch[i]
		var fault error
		if o.unchecked && !o.ended {
			fault = r.cfg.Check(&o.Notification)
		}
		switch {
		case fault == nil:
			allowed = append(allowed, o)
		case o.refusedLong:
			ends = append(ends, agenda.End{
				ID: o.ID, Status: notification.StatusFailed, Reason: "refused: " + fault.Error(),
			})
		default:
			refused = append(refused, o.ID)
		}
	}
	if len(ends) > 0 {
		if _, err := endAll(ctx, tx, false, ends...); err != nil {
			return nil, err
		}
	}
	if len(refused) > 0 {
		if _, err := tx.Exec(ctx, noteRefusedSQL, refused); err != nil {
			return nil, err
		}
	}
	return allowed, nil
}

// noteAllowedSQL notes that notifications have been checked.
const noteAllowedSQL = "UPDATE pacer.outbox SET unchecked = false, refused_at = NULL WHERE id = ANY ($1)"

// noteAllowed notes which notifications of producers are allowed, but could not be placed. They are accepted: no other
// process refuses them while they wait for their partition.
func noteAllowed(ctx context.Context, tx *limited.Tx, allowed []*outboxed, placed []string) error {
	if len(placed) == len(allowed) {
		return nil
	}
	var ids []string
	for _, o := range allowed {
		if o.unchecked && !o.ended && !slices.Contains(placed, o.ID) {
			ids = append(ids, o.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, noteAllowedSQL, ids)
	return err
}
