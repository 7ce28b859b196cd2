package postgres

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// refusalLooks is how often each process looks again at what was refused, until it ends as failed.
const refusalLooks = 30

// looksAgain reports whether it is time to look again at what was refused.
func (l *Relay) looksAgain() bool {
	if time.Since(l.refusedAt) < l.store.cfg.RefusalPatience/refusalLooks {
		return false
	}
	l.refusedAt = time.Now()
	return true
}

// noteRefusedSQL notes since when notifications have been refused.
const noteRefusedSQL = "UPDATE pacer.outbox SET refused_at = clock_timestamp() WHERE id = ANY ($1) AND refused_at IS NULL"

// refuse checks what producers wrote into the database, and returns what may be placed. What this process refuses may
// be what the others allow: they have a newer policy, or a channel that this one does not have yet. So it stays in the
// outbox, where every process looks at it again and again, and ends as failed only once all of them have refused it for
// Config.RefusalPatience. It then stays for one more look, which takes it out of the backlog that a rebuild may have
// put it into. What was accepted in another way has been checked, and is never refused here.
func (l *Relay) refuse(ctx context.Context, tx *limited.Tx, batch []outboxed) (allowed []*outboxed, err error) {
	var refused []string
	var ends []agenda.End
	for i := range batch {
		o := &batch[i]
		var fault error
		if o.unchecked && !o.ended {
			fault = l.cfg.Check(&o.Notification)
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
