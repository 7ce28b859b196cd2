package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/intake"
)

// acceptTime is how long a request may take to be accepted before a repeat of it may take over.
const acceptTime = 10 * time.Second

// keyOpenSQL is true for an idempotency key k whose notification has not ended. A pause, a hold or another policy may
// keep one open for longer than the life that its key was given.
const keyOpenSQL = `(SELECT n.ended_at IS NULL FROM pacer.notifications n
	WHERE n.id = ANY (ARRAY[k.notification_id])) IS TRUE`

// keyOverSQL is true for an idempotency key k that another notification may have.
const keyOverSQL = `(k.expires_at < clock_timestamp() AND NOT ` + keyOpenSQL + `)`

// reserveSQL claims an idempotency key that is new, over, or left by a request that did not finish. It returns who has
// the key.
const reserveSQL = `
WITH mine AS (
	INSERT INTO pacer.idempotency_keys AS k (key, fingerprint, notification_id, accepting_until, expires_at)
	VALUES ($1, $2, $3, clock_timestamp() + $4::interval, clock_timestamp() + $5::interval)
	ON CONFLICT (key) DO UPDATE SET
		(fingerprint, notification_id) = (SELECT
			CASE WHEN o.over THEN excluded.fingerprint ELSE k.fingerprint END,
			CASE WHEN o.over THEN excluded.notification_id ELSE k.notification_id END
			FROM (SELECT ` + keyOverSQL + ` AS over) o),
		accepting_until = excluded.accepting_until, expires_at = excluded.expires_at
	WHERE (k.fingerprint = excluded.fingerprint AND k.accepting_until < clock_timestamp()) OR ` + keyOverSQL + `
	RETURNING fingerprint, notification_id
)
SELECT true, fingerprint, notification_id, true FROM mine
UNION ALL
SELECT false, fingerprint, notification_id, accepting_until IS NOT NULL FROM pacer.idempotency_keys
WHERE key = $1 AND NOT EXISTS (SELECT FROM mine)`

// Reserve implements [intake.Store].
func (r *Store) Reserve(ctx context.Context, key, fingerprint, id string,
	life time.Duration,
) (intake.Reservation, error) {
	ctx, cancel := bounded(ctx, r.cfg.AcceptTimeout)
	defer cancel()
	for {
		reservation, err := r.reserve(ctx, key, fingerprint, id, life)
		switch {
		case err == nil:
			return reservation, nil
		case !errors.Is(err, pgx.ErrNoRows):
			return intake.Reservation{}, describe("reserve an idempotency key", err)
		}
		// Another request reserved the key while this statement ran: the row conflicts, but the statement can't see it.
		// The next statement can.
	}
}

// reserve runs reserveSQL once. It returns [pgx.ErrNoRows] when another reservation was committed meanwhile.
func (r *Store) reserve(ctx context.Context, key, fingerprint, id string,
	life time.Duration,
) (intake.Reservation, error) {
	var mine, accepting bool
	var owner string
	reservation := intake.Reservation{}
	err := r.pool.QueryRow(ctx, reserveSQL, key, fingerprint, id, acceptTime, life).Scan(&mine, &owner, &reservation.ID,
		&accepting)
	switch {
	case err != nil:
		return intake.Reservation{}, err
	case mine:
		reservation.Claim = intake.ClaimNew
	case owner != fingerprint:
		reservation.Claim = intake.ClaimOther
	case accepting:
		reservation.Claim = intake.ClaimBusy
	default:
		reservation.Claim = intake.ClaimDone
	}
	return reservation, nil
}

// reservedSQL returns who has an idempotency key.
const reservedSQL = `
SELECT fingerprint, notification_id, accepting_until IS NOT NULL FROM pacer.idempotency_keys k
WHERE key = $1 AND NOT ` + keyOverSQL

// Reserved implements [intake.Store].
func (r *Store) Reserved(ctx context.Context, key, fingerprint string) (intake.Reservation, error) {
	ctx, cancel := bounded(ctx, r.cfg.AcceptTimeout)
	defer cancel()
	var owner string
	var accepting bool
	held := intake.Reservation{Claim: intake.ClaimDone}
	err := r.pool.QueryRow(ctx, reservedSQL, key).Scan(&owner, &held.ID, &accepting)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return intake.Reservation{Claim: intake.ClaimNew}, nil
	case err != nil:
		return intake.Reservation{}, describe("look up an idempotency key", err)
	case owner != fingerprint:
		held.Claim = intake.ClaimOther
	case accepting:
		held.Claim = intake.ClaimBusy
	}
	return held, nil
}

// Commit implements [intake.Store].
func (r *Store) Commit(ctx context.Context, key string) error {
	ctx, cancel := bounded(ctx, r.cfg.AcceptTimeout)
	defer cancel()
	if _, err := r.pool.Exec(ctx, "UPDATE pacer.idempotency_keys SET accepting_until = NULL WHERE key = $1",
		key); err != nil {
		return describe("commit an idempotency key", err)
	}
	return nil
}
