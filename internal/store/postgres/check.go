package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// checkBatch is how many notifications one transaction checks.
	checkBatch = 250
	// refusalLooks is how often each process looks again at what was refused, until it ends as failed.
	refusalLooks = 30
)

// uncheckedSQL is true for a notification n that came through pacer.enqueue, as long as no process has allowed it: it
// is in no backlog, and replaces nothing. See also supersededSQL.
const uncheckedSQL = "EXISTS (SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY[n.id]) AND o.unchecked)"

const (
	checkSQL = `
SELECT o.key, o.refused_at, coalesce(o.refused_at < clock_timestamp() - $2::interval, false),
	n.ended_at IS NOT NULL,` + contentColumns + `
FROM pacer.outbox o JOIN pacer.notifications n ON n.id = ANY (ARRAY[o.key]) WHERE o.unchecked AND `
	// checkNewSQL takes what no process has looked at, and that no other has locked now.
	checkNewSQL = checkSQL + "o.refused_at IS NULL ORDER BY o.refused_at, o.key LIMIT $1 FOR UPDATE OF o SKIP LOCKED"
	// checkAgainSQL takes what was refused, behind a place.
	checkAgainSQL = checkSQL + `(o.refused_at, o.key) > ($3, $4)
ORDER BY o.refused_at, o.key LIMIT $1 FOR UPDATE OF o SKIP LOCKED`
	// allowSQL lets the relays place what is allowed, refuseSQL notes since when the rest has been refused.
	allowSQL = `
UPDATE pacer.outbox SET unchecked = false, refused_at = NULL, due_at = clock_timestamp() WHERE key = ANY ($1)`
	refuseSQL = "UPDATE pacer.outbox SET refused_at = clock_timestamp() WHERE key = ANY ($1) AND refused_at IS NULL"
)

// unchecked is a notification that a producer wrote into the database.
type unchecked struct {
	notification.Notification
	refusedAt *time.Time
	// overdue is true when it has been refused for Config.RefusalPatience.
	overdue, ended bool
}

func scanUnchecked(row pgx.CollectableRow) (unchecked, error) {
	var u unchecked
	var c content
	err := row.Scan(c.into([]any{&u.ID, &u.refusedAt, &u.overdue, &u.ended}, &u.Notification)...)
	c.fill(&u.Notification)
	return u, err
}

// checkOutbox checks what producers wrote into the database. What this process refuses may be what another allows,
// which has a newer policy, or a channel that this one does not have yet: so every process looks at it, again and
// again, and it ends as failed only once all have refused it for Config.RefusalPatience.
func (r *Relay) checkOutbox(ctx context.Context) error {
	if err := r.checkAgain(ctx); err != nil {
		return describe("check again what was refused", err)
	}
	for more := true; more; {
		batch, _, err := r.checkPart(ctx, func(tx *limited.Tx) (pgx.Rows, error) {
			return tx.Query(ctx, checkNewSQL, checkBatch, r.store.cfg.RefusalPatience)
		})
		if err != nil {
			return describe("check what producers wrote into the database", err)
		}
		more = len(batch) == checkBatch
	}
	return nil
}

// checkAgain checks what was refused. A batch of which it allows nothing is the last of the round, so that much of it
// does not hold up the rest of the relay's work. When a pass has come to the end, the next one waits for its time.
func (r *Relay) checkAgain(ctx context.Context) error {
	if r.again == (outboxPlace{}) {
		if time.Since(r.refusedAt) < r.store.cfg.RefusalPatience/refusalLooks {
			return nil
		}
		r.refusedAt = time.Now()
	}
	for {
		batch, allowed, err := r.checkPart(ctx, func(tx *limited.Tx) (pgx.Rows, error) {
			return tx.Query(ctx, checkAgainSQL, checkBatch, r.store.cfg.RefusalPatience, r.again.at, r.again.key)
		})
		if err != nil {
			return err
		}
		if len(batch) < checkBatch {
			r.again = outboxPlace{}
			return nil
		}
		last := &batch[len(batch)-1]
		if r.again = (outboxPlace{*last.refusedAt, last.ID}); allowed == 0 {
			return nil
		}
	}
}

// checkPart checks one batch, which read reads, and returns how many of it are allowed.
func (r *Relay) checkPart(ctx context.Context, read func(*limited.Tx) (pgx.Rows, error),
) (batch []unchecked, allowed int, err error) {
	err = r.store.db.InTx(ctx, r.outboxOptions(), func(tx *limited.Tx) error {
		rows, err := read(tx)
		if err != nil {
			return err
		}
		if batch, err = pgx.CollectRows(rows, scanUnchecked); err != nil || len(batch) == 0 {
			return err
		}
		allowed, err = r.decide(ctx, tx, batch)
		return err
	})
	return batch, allowed, err
}

// decide writes which of a batch are allowed, which are refused, and which have ended. It returns how many are allowed.
func (r *Relay) decide(ctx context.Context, tx *limited.Tx, batch []unchecked) (int, error) {
	var allowed, refused, over []string
	var ends []agenda.End
	for i := range batch {
		u := &batch[i]
		if u.ended {
			over = append(over, u.ID)
			continue
		}
		switch fault := r.cfg.Check(&u.Notification); {
		case fault == nil:
			allowed = append(allowed, u.ID)
		case u.overdue:
			ends = append(ends, agenda.End{
				ID: u.ID, Status: notification.StatusFailed, Reason: "refused: " + fault.Error(),
			})
			over = append(over, u.ID)
		default:
			refused = append(refused, u.ID)
		}
	}
	if len(ends) > 0 {
		if _, err := endAll(ctx, tx, false, ends...); err != nil {
			return 0, err
		}
	}
	if _, err := tx.Exec(ctx, allowSQL, allowed); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, refuseSQL, refused); err != nil {
		return 0, err
	}
	_, err := tx.Exec(ctx, finishSQL, over)
	return len(allowed), err
}
