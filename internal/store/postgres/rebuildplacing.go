package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// placingBatch is how many rows of the outbox one statement looks at.
const placingBatch = 2000

const (
	// placingSQL returns what producers wrote into the database and nobody has checked, behind an id, and of each
	// whether a relay has it locked. CASE keeps Postgres from believing that hardly anything is unchecked.
	placingSQL = `
WITH batch AS MATERIALIZED (
	SELECT id FROM pacer.outbox WHERE CASE WHEN unchecked THEN true ELSE false END AND id > $1 ORDER BY id LIMIT $2
), free AS MATERIALIZED (
	SELECT id FROM pacer.outbox WHERE id = ANY (ARRAY (SELECT id FROM batch)) FOR KEY SHARE SKIP LOCKED
)
SELECT batch.id, free.id IS NULL FROM batch LEFT JOIN free ON free.id = batch.id ORDER BY batch.id`
	// placedSQL waits for the transactions that have rows of the outbox locked.
	placedSQL = "SELECT id FROM pacer.outbox WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE"
)

// placing lists what a relay may have placed before the partitions were stopped, in a transaction that has not ended:
// it may take the rows out of the outbox still. What a relay begins to place now is refused until the rebuild has
// ended. When the transactions end within Config.PlacePatience, there is nothing of the kind.
func (r *rebuild) placing(ctx context.Context) ([]string, error) {
	locked := []string{}
	for last, more := "", true; more; {
		rows, err := r.store.db.Query(ctx, placingSQL, last, placingBatch)
		if err != nil {
			return nil, describe("look for notifications that are being placed", err)
		}
		found, isLocked := 0, false
		if _, err := pgx.ForEachRow(rows, []any{&last, &isLocked}, func() error {
			if found++; isLocked {
				locked = append(locked, last)
			}
			return nil
		}); err != nil {
			return nil, describe("look for notifications that are being placed", err)
		}
		more = found == placingBatch
	}
	if len(locked) == 0 {
		return locked, nil
	}
	err := r.awaitPlaced(ctx, locked)
	if failure, ok := errors.AsType[*pgconn.PgError](err); ok && failure.Code == lockNotAvailable {
		return locked, nil
	}
	if err != nil {
		return nil, describe("wait for notifications that are being placed", err)
	}
	return []string{}, nil
}

// lockNotAvailable is Postgres's code for a lock that was not to be had in time.
const lockNotAvailable = "55P03"

// awaitPlaced waits for the transactions of relays that have rows of the outbox locked.
func (r *rebuild) awaitPlaced(ctx context.Context, ids []string) error {
	patience := pgx.TxOptions{
		BeginQuery: fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d", r.store.cfg.PlacePatience.Milliseconds()),
	}
	return r.store.db.InTx(ctx, patience, func(tx *limited.Tx) error {
		_, err := tx.Exec(ctx, placedSQL, ids)
		return err
	})
}
