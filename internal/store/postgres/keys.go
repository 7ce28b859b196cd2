package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// keysAtOnce is how many idempotency keys one statement looks up.
const keysAtOnce = 1000

const (
	// holdersSQL returns the notifications that have some idempotency keys.
	holdersSQL = "SELECT " + viewColumns + " FROM pacer.notifications n WHERE idempotency_key = ANY ($1)"
	// freeKeysSQL frees those of some keys whose notifications have ended, and were accepted longer ago than $2.
	freeKeysSQL = `
UPDATE pacer.notifications SET idempotency_key = NULL, fingerprint = NULL
WHERE idempotency_key = ANY ($1) AND ended_at IS NOT NULL AND accepted_at < clock_timestamp() - $2::interval`
)

// holders returns the notifications that have some idempotency keys, by key. It frees the keys that are over.
func (a *accepting) holders(ctx context.Context, keys []string) (map[string]*notification.Notification, error) {
	held := make(map[string]*notification.Notification, len(keys))
	var over []string
	for some := range slices.Chunk(keys, keysAtOnce) {
		rows, err := a.stores.Pool.Query(ctx, holdersSQL, some)
		if err != nil {
			return nil, err
		}
		found, err := pgx.CollectRows(rows, scanRow)
		if err != nil {
			return nil, err
		}
		for i := range found {
			n := &found[i].Notification
			if intake.KeyIsOver(n.CreatedAt, found[i].Status.Ended()) {
				over = append(over, n.IdempotencyKey)
				continue
			}
			held[n.IdempotencyKey] = n
		}
	}
	if len(over) == 0 {
		return held, nil
	}
	_, err := a.stores.Changes.Exec(ctx, freeKeysSQL, over, intake.KeyLife)
	return held, err
}

// Holder implements [intake.Store].
func (a *accepting) Holder(ctx context.Context, key string) (*notification.Notification, error) {
	ctx, cancel := limited.Bounded(ctx, a.cfg.AcceptTimeout)
	defer cancel()
	held, err := a.holders(ctx, []string{key})
	if err != nil {
		return nil, a.notAccepted(ctx, "look up an idempotency key", err)
	}
	return held[key], nil
}

// acceptHeld finds the results of those of a batch whose idempotency keys have notifications already, and returns the
// indexes of the others. So a batch that is repeated whole writes nothing.
func (a *accepting) acceptHeld(ctx context.Context, batch []*notification.Notification, accepted []intake.Accepted,
) (others []int, err error) {
	var keys []string
	for _, n := range batch {
		if n.IdempotencyKey != "" {
			keys = append(keys, n.IdempotencyKey)
		}
	}
	held := map[string]*notification.Notification{}
	if len(keys) > 0 {
		ctx, cancel := limited.Bounded(ctx, a.cfg.AcceptTimeout)
		defer cancel()
		if held, err = a.holders(ctx, keys); err != nil {
			return nil, a.notAccepted(ctx, "look up idempotency keys", err)
		}
	}
	for i, n := range batch {
		if first := held[n.IdempotencyKey]; first != nil {
			accepted[i] = intake.Accepted{Known: true, First: first}
			continue
		}
		others = append(others, i)
	}
	return others, nil
}
