package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres keeps events in Postgres. The table gives each its sequence number, under a lock until the end of the
// transaction: so nobody reads an event and misses one before it.
type Postgres struct{ pool *pgxpool.Pool }

// NewPostgres makes a store on a database that is migrated.
func NewPostgres(pool *pgxpool.Pool) *Postgres { return &Postgres{pool} }

// After implements [Store].
func (p *Postgres) After(ctx context.Context, sequence int64, limit int) ([]Event, error) {
	rows, err := p.pool.Query(ctx, `SELECT sequence, at, event FROM pacer.events WHERE sequence > $1
		ORDER BY sequence LIMIT $2`, sequence, limit)
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Event, err error) {
		var number int64
		var at time.Time
		var text []byte
		if err := row.Scan(&number, &at, &text); err != nil {
			return e, err
		}
		err = json.Unmarshal(text, &e)
		e.Sequence, e.At = number, at.UTC()
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	return all, nil
}

// GoOnAfter has the next event numbered beyond those that another store has given out. It may be repeated.
func (p *Postgres) GoOnAfter(ctx context.Context, sequence int64) error {
	if _, err := p.pool.Exec(ctx, `UPDATE pacer.numbers SET value = greatest(value, $1) WHERE name = 'event'`,
		sequence); err != nil {
		return fmt.Errorf("continue the numbering of events: %w", err)
	}
	return nil
}

// holdSQL makes a process the one that sends to a receiver, unless another is. Parameters: receiver, process, lease in
// milliseconds.
const holdSQL = `
INSERT INTO pacer.event_receivers AS r (receiver, done, holder, held_until)
VALUES ($1, (SELECT value FROM pacer.numbers WHERE name = 'event'), $2,
	clock_timestamp() + $3 * interval '1 millisecond')
ON CONFLICT (receiver) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
	WHERE r.holder = excluded.holder OR r.held_until <= clock_timestamp()
RETURNING ` + progressColumns

// progressColumns are what scanProgress reads.
const progressColumns = `r.done, CASE WHEN r.failing > r.done THEN r.failing_since END, clock_timestamp()`

// Hold implements [Store].
func (p *Postgres) Hold(ctx context.Context, receiver, holder string, lease time.Duration) (Progress, bool, error) {
	progress, err := scanProgress(p.pool.QueryRow(ctx, holdSQL, receiver, holder, lease.Milliseconds()))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Progress{}, false, nil
	case err != nil:
		return Progress{}, false, fmt.Errorf("lock a receiver of events: %w", err)
	}
	return progress, true, nil
}

func scanProgress(row pgx.Row) (progress Progress, err error) {
	var since *time.Time
	if err = row.Scan(&progress.Done, &since, &progress.Now); err == nil && since != nil {
		progress.FailingSince = since.UTC()
	}
	return progress, err
}

// Done implements [Store].
func (p *Postgres) Done(ctx context.Context, receiver string, sequence int64) error {
	if _, err := p.pool.Exec(ctx, `UPDATE pacer.event_receivers SET done = $2 WHERE receiver = $1 AND done < $2`,
		receiver, sequence); err != nil {
		return fmt.Errorf("note that an event was received: %w", err)
	}
	return nil
}

// failedSQL notes that a receiver did not take an event. Parameters: receiver, the event's sequence number.
const failedSQL = `
UPDATE pacer.event_receivers AS r SET failing = greatest(failing, $2),
	failing_since = CASE WHEN failing < $2 THEN clock_timestamp() ELSE failing_since END
WHERE receiver = $1 RETURNING ` + progressColumns

// Failed implements [Store].
func (p *Postgres) Failed(ctx context.Context, receiver string, sequence int64) (Progress, error) {
	progress, err := scanProgress(p.pool.QueryRow(ctx, failedSQL, receiver, sequence))
	if err != nil {
		return Progress{}, fmt.Errorf("note that an event was not received: %w", err)
	}
	return progress, nil
}

// forgetSQL removes some of the oldest events that were kept long enough. Parameters: how long, in seconds; how many
// are looked at.
const forgetSQL = `
DELETE FROM pacer.events WHERE sequence = ANY (ARRAY(
	SELECT sequence FROM (SELECT sequence, at FROM pacer.events ORDER BY sequence LIMIT $2) AS oldest
	WHERE at < clock_timestamp() - $1 * interval '1 second'))`

// forgetRows is how many events are looked at to forget those that are old.
const forgetRows = 1000

// Forget implements [Store].
func (p *Postgres) Forget(ctx context.Context) (more bool, err error) {
	tag, err := p.pool.Exec(ctx, forgetSQL, int64(Kept.Seconds()), forgetRows)
	if err != nil {
		return false, fmt.Errorf("forget old events: %w", err)
	}
	return tag.RowsAffected() == forgetRows, nil
}
