package outbox

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

const (
	// checkBatch is how many notifications one transaction checks.
	checkBatch = 250
	// refusalLooks is how often each process looks again at what was refused, until it ends as failed.
	refusalLooks = 30
)

const (
	checkSQL = `
SELECT o.key, o.refused_at, coalesce(o.refused_at < clock_timestamp() - $2::interval, false),
	n.ended_at IS NOT NULL,` + columns.ContentColumns + `
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
	// overdue is true when it has been refused for its patience.
	overdue, ended bool
}

func scanUnchecked(row pgx.CollectableRow) (unchecked, error) {
	var u unchecked
	var c columns.Content
	err := row.Scan(c.Into([]any{&u.ID, &u.refusedAt, &u.overdue, &u.ended}, &u.Notification)...)
	c.Fill(&u.Notification)
	return u, err
}

// Checker checks what producers wrote into the database.
type Checker struct {
	// allow refuses what the policy or its channel does not allow. Its error becomes the reason of the failure.
	allow func(*notification.Notification) error
	// patience is how long all processes must have refused a notification before it ends as failed: some may have
	// another policy or other channels for a while.
	patience  time.Duration
	stores    *seam.Stores
	again     place     // where the next round begins among what was refused, during a pass
	refusedAt time.Time // when the latest pass began
}

// NewChecker makes a Checker. Its patience defaults to a minute.
func NewChecker(stores *seam.Stores, allow func(*notification.Notification) error, patience time.Duration) *Checker {
	return &Checker{stores: stores, allow: allow, patience: cmp.Or(patience, time.Minute)}
}

// Check checks what producers wrote into the database. What this process refuses may be what another allows,
// which has a newer policy, or a channel that this one does not have yet: so every process looks at it, again and
// again, and it ends as failed only once all have refused it for its patience.
func (c *Checker) Check(ctx context.Context) error {
	if err := c.checkAgain(ctx); err != nil {
		return limited.Describe("check again what was refused", err)
	}
	for more := true; more; {
		batch, _, err := c.checkPart(ctx, func(tx *limited.Tx) (pgx.Rows, error) {
			return tx.Query(ctx, checkNewSQL, checkBatch, c.patience)
		})
		if err != nil {
			return limited.Describe("check what producers wrote into the database", err)
		}
		more = len(batch) == checkBatch
	}
	return nil
}

// checkAgain checks what was refused. A batch of which it allows nothing is the last of the round, so that much of it
// does not hold up the rest of the relay's work. When a pass has come to the end, the next one waits for its time.
func (c *Checker) checkAgain(ctx context.Context) error {
	if c.again == (place{}) {
		if time.Since(c.refusedAt) < c.patience/refusalLooks {
			return nil
		}
		c.refusedAt = time.Now()
	}
	for {
		batch, allowed, err := c.checkPart(ctx, func(tx *limited.Tx) (pgx.Rows, error) {
			return tx.Query(ctx, checkAgainSQL, checkBatch, c.patience, c.again.at, c.again.key)
		})
		if err != nil {
			return err
		}
		if len(batch) < checkBatch {
			c.again = place{}
			return nil
		}
		last := &batch[len(batch)-1]
		if c.again = (place{*last.refusedAt, last.ID}); allowed == 0 {
			return nil
		}
	}
}

// checkPart checks one batch, which read reads, and returns how many of it are allowed.
func (c *Checker) checkPart(ctx context.Context, read func(*limited.Tx) (pgx.Rows, error),
) (batch []unchecked, allowed int, err error) {
	err = c.stores.DB.InTx(ctx, options(c.stores), func(tx *limited.Tx) error {
		rows, err := read(tx)
		if err != nil {
			return err
		}
		if batch, err = pgx.CollectRows(rows, scanUnchecked); err != nil || len(batch) == 0 {
			return err
		}
		allowed, err = c.decide(ctx, tx, batch)
		return err
	})
	return batch, allowed, err
}

// decide writes which of a batch are allowed, which are refused, and which have ended. It returns how many are allowed.
func (c *Checker) decide(ctx context.Context, tx *limited.Tx, batch []unchecked) (int, error) {
	var allowed, refused, over []string
	var ends []agenda.End
	for i := range batch {
		u := &batch[i]
		if u.ended {
			over = append(over, u.ID)
			continue
		}
		switch fault := c.allow(&u.Notification); {
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
