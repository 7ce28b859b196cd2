package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// acceptTime is how long a request may take to be accepted before a repeat of it may take over.
const acceptTime = 10 * time.Second

// keyOpenSQL is true for an idempotency key k whose notification has not ended. A pause, a hold or another policy may
// keep one open for longer than the life that its key was given.
const keyOpenSQL = `(SELECT n.ended_at IS NULL FROM pacer.notifications n
	WHERE n.id = ANY (ARRAY[k.notification_id])) IS TRUE`

// keyOverSQL is true for an idempotency key k that another notification may have.
const keyOverSQL = `(k.expires_at < clock_timestamp() AND NOT ` + keyOpenSQL + `)`

// reserveSQL claims idempotency keys that are new, over, or left by a request that did not finish. It returns who has
// each key.
const reserveSQL = `
WITH begun AS MATERIALIZED (SELECT ` + setLockWait + `
), asked AS MATERIALIZED (
	SELECT a.* FROM begun, unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS a(key, fingerprint, id, life_us)
), mine AS (
	INSERT INTO pacer.idempotency_keys AS k (key, fingerprint, notification_id, accepting_until, expires_at)
	SELECT key, fingerprint, id, clock_timestamp() + $5::interval,
		clock_timestamp() + life_us * interval '1 microsecond' FROM asked
	ON CONFLICT (key) DO UPDATE SET
		(fingerprint, notification_id) = (SELECT
			CASE WHEN o.over THEN excluded.fingerprint ELSE k.fingerprint END,
			CASE WHEN o.over THEN excluded.notification_id ELSE k.notification_id END
			FROM (SELECT ` + keyOverSQL + ` AS over) o),
		accepting_until = excluded.accepting_until, expires_at = excluded.expires_at
	WHERE (k.fingerprint = excluded.fingerprint AND k.accepting_until < clock_timestamp()) OR ` + keyOverSQL + `
	RETURNING k.key, k.fingerprint, k.notification_id
)
SELECT key, true, fingerprint, notification_id, true FROM mine
UNION ALL
SELECT k.key, false, k.fingerprint, k.notification_id, k.accepting_until IS NOT NULL
FROM asked a JOIN pacer.idempotency_keys k ON k.key = ANY (ARRAY[a.key])
WHERE k.key NOT IN (SELECT key FROM mine)`

// Reserve implements [intake.Store].
func (s *Store) Reserve(ctx context.Context, keys []intake.Key) ([]intake.Reservation, error) {
	ctx, cancel := bounded(ctx, s.cfg.AcceptTimeout)
	defer cancel()
	reservations := make([]intake.Reservation, len(keys))
	left := make([]int, len(keys))
	for i := range keys {
		left[i] = i
	}
	// Every statement takes the keys in one order, so that no two wait for each other.
	slices.SortFunc(left, func(i, j int) int { return strings.Compare(keys[i].Key, keys[j].Key) })
	for len(left) > 0 {
		err := s.reserve(ctx, keys, left, reservations)
		if limited.LockedOut(err) {
			err = s.lockedAccepts.Do(ctx, func() error { return s.reserve(ctx, keys, left, reservations) })
		}
		if err != nil {
			return nil, s.notAccepted(ctx, "reserve idempotency keys", err)
		}
		// Another request reserved a key while this statement ran: the row conflicts, but the statement can't see it.
		// The next statement can.
		left = slices.DeleteFunc(left, func(i int) bool { return reservations[i].Claim != 0 })
	}
	return reservations, nil
}

// reserve runs reserveSQL once for the keys that have the given indexes. Those have no reservation then for which
// another one was committed meanwhile.
func (s *Store) reserve(ctx context.Context, keys []intake.Key, of []int, reservations []intake.Reservation) error {
	n := len(of)
	names, prints, ids, lives := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	places := make(map[string]int, n)
	for i, index := range of {
		k := keys[index]
		names[i], prints[i], ids[i], lives[i] = k.Key, k.Fingerprint, k.ID, k.Life.Microseconds()
		places[k.Key] = index
	}
	if err := s.accepting.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.accepting.Release(1)
	rows, err := s.pool.Query(ctx, reserveSQL, names, prints, ids, lives, acceptTime)
	if err != nil {
		return err
	}
	var mine, accepting bool
	var key, owner, id string
	_, err = pgx.ForEachRow(rows, []any{&key, &mine, &owner, &id, &accepting}, func() error {
		reservation := intake.Reservation{Claim: intake.ClaimDone, ID: id}
		switch {
		case mine:
			reservation.Claim = intake.ClaimNew
		case owner != keys[places[key]].Fingerprint:
			reservation.Claim = intake.ClaimOther
		case accepting:
			reservation.Claim = intake.ClaimBusy
		}
		reservations[places[key]] = reservation
		return nil
	})
	return err
}

// reservedSQL returns who has an idempotency key.
const reservedSQL = `
SELECT fingerprint, notification_id, accepting_until IS NOT NULL, accepting_until < clock_timestamp() IS TRUE
FROM pacer.idempotency_keys k
WHERE key = $1 AND NOT ` + keyOverSQL

// Reserved implements [intake.Store].
func (s *Store) Reserved(ctx context.Context, key, fingerprint string) (intake.Reservation, error) {
	ctx, cancel := bounded(ctx, s.cfg.AcceptTimeout)
	defer cancel()
	var owner string
	var accepting, givenUp bool
	held := intake.Reservation{Claim: intake.ClaimDone}
	err := s.pool.QueryRow(ctx, reservedSQL, key).Scan(&owner, &held.ID, &accepting, &givenUp)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return intake.Reservation{Claim: intake.ClaimNew}, nil
	case err != nil:
		return intake.Reservation{}, s.notAccepted(ctx, "look up an idempotency key", err)
	case owner != fingerprint:
		held.Claim = intake.ClaimOther
	case givenUp:
		held.Claim = intake.ClaimNew
	case accepting:
		held.Claim = intake.ClaimBusy
	}
	return held, nil
}

// commitSQL commits idempotency keys, in the order in which they are given.
const commitSQL = `
UPDATE pacer.idempotency_keys k SET accepting_until = NULL
FROM unnest($1::text[]) AS a(key) WHERE k.key = ANY (ARRAY[a.key])`

// Commit implements [intake.Store].
func (s *Store) Commit(ctx context.Context, keys []intake.AcceptedKey) error {
	ctx, cancel := bounded(ctx, s.cfg.AcceptTimeout)
	defer cancel()
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	slices.Sort(names) // the order in which Reserve takes them
	_, err := limited.Impatient{Pool: s.pool, Wait: "1s"}.Exec(ctx, commitSQL, names)
	if limited.LockedOut(err) { // they are accepted, and a repeat finds them by the ids that the keys have
		s.cfg.Log.WarnContext(ctx, "another transaction in the database locks an idempotency key; its notification is accepted all the same", "error", err)
	} else if err != nil {
		return s.notAccepted(ctx, "commit idempotency keys", err)
	}
	return nil
}

// Originals implements [intake.Store].
func (s *Store) Originals(ctx context.Context, of []intake.Original) ([]*notification.Notification, error) {
	ctx, cancel := bounded(ctx, s.cfg.AcceptTimeout)
	defer cancel()
	ids := make([]string, len(of))
	for i, o := range of {
		ids[i] = o.ID
	}
	rows, err := s.pool.Query(ctx, viewsSQL, ids)
	if err != nil {
		return nil, s.notAccepted(ctx, "read what was accepted before", err)
	}
	found, err := pgx.CollectRows(rows, scanRow)
	if err != nil {
		return nil, s.notAccepted(ctx, "read what was accepted before", err)
	}
	byID := make(map[string]*notification.Notification, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i].Notification
	}
	originals := make([]*notification.Notification, len(of))
	for i, id := range ids {
		originals[i] = byID[id]
	}
	return originals, nil
}
