package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
)

// The ways in which Redis can differ from what Postgres says.
const (
	// DiffEpoch is a partition that has lost its state, or was built on another server. It grants nothing until it is
	// rebuilt.
	DiffEpoch = "epoch"
	// DiffMissing is a notification that has not ended and is not in Redis.
	DiffMissing = "missing"
	// DiffSurplus is a notification that waits in Redis, but has ended or never existed.
	DiffSurplus = "surplus"
	// DiffWindow is an admission that Redis should count and does not.
	DiffWindow = "window"
	// DiffWakeup is a user for whom something waits, without a wake-up that comes in time.
	DiffWakeup = "wake-up"
)

// Difference is a difference between Redis and the database.
type Difference struct {
	// What is one of the constants above.
	What string
	// ID is the id of the notification. For a window it is category:user, or user_cap:user for a user cap; for a
	// wake-up it is the user; for an epoch it is the partition.
	ID string
	// Detail is a sentence for people.
	Detail string
}

const (
	// verifyBatch is how many notifications are compared at a time.
	verifyBatch = 1000
	// verifyAgain is how long to wait before a difference is looked at again: one store knows of a notification's next
	// step a moment before the other does.
	verifyAgain = 200 * time.Millisecond
)

// Verify compares Redis with the database and calls found with every difference. It changes nothing. It looks at each
// difference twice. While the deployment works, it may still find a notification between two steps: only a difference
// that a second Verify finds too is a fault.
func (l *Relay) Verify(ctx context.Context, found func(Difference) error) error {
	for _, part := range []func(context.Context, func(Difference) error) error{
		l.verifyEpochs, l.verifyOpen, l.verifyWaiting, l.verifyWindows,
	} {
		if err := part(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// again waits before a second look.
func again(ctx context.Context) error {
	timer := time.NewTimer(verifyAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verifyEpochs finds partitions that are not in the state that the database knows.
func (l *Relay) verifyEpochs(ctx context.Context, found func(Difference) error) error {
	identity, err := l.store.agendas.Identity(ctx)
	if err != nil {
		return err
	}
	partitions, err := l.lost(ctx, identity)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		detail := "has lost its state, or was built on another server: it grants nothing until it is rebuilt"
		if err := found(Difference{What: DiffEpoch, ID: strconv.Itoa(partition), Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

const (
	// verifyOpenSQL returns a page of the notifications that have not ended, and whether each is in the outbox, from
	// where the relay will place it.
	verifyOpenSQL = `
SELECT n.id, n.user_id, n.category, n.status, n.accepted_at,
	EXISTS (SELECT FROM pacer.outbox o WHERE o.id = ANY (ARRAY[n.id]))
FROM pacer.notifications n
WHERE n.ended_at IS NULL AND (n.accepted_at, n.id) > ($1, $2)
ORDER BY n.accepted_at, n.id LIMIT $3`
	// verifyOpenAgainSQL returns the same for some of them.
	verifyOpenAgainSQL = `
SELECT n.id, n.user_id, n.category, n.status, n.accepted_at,
	EXISTS (SELECT FROM pacer.outbox o WHERE o.id = ANY (ARRAY[n.id]))
FROM pacer.notifications n
WHERE n.id = ANY ($1) AND n.status IN ('waiting', 'retrying', 'sending')`
)

// verifyOpen finds notifications that have not ended and are not in Redis.
func (l *Relay) verifyOpen(ctx context.Context, found func(Difference) error) error {
	at, id := time.Time{}, ""
	for {
		page, err := collectOpen(l.store.pool.Query(ctx, verifyOpenSQL, at, id, verifyBatch))
		if err != nil {
			return err
		}
		if err := l.verifyPage(ctx, page, found); err != nil {
			return err
		}
		if len(page) < verifyBatch {
			return nil
		}
		at, id = page[len(page)-1].acceptedAt, page[len(page)-1].ID
	}
}

// collectOpen reads the rows of verifyOpenSQL or verifyOpenAgainSQL.
func collectOpen(rows pgx.Rows, err error) ([]open, error) {
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o open, err error) {
		return o, row.Scan(&o.ID, &o.UserID, &o.Category, &o.status, &o.acceptedAt, &o.coming)
	})
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	return page, nil
}

func (l *Relay) verifyPage(ctx context.Context, page []open, found func(Difference) error) error {
	suspects, err := l.displaced(ctx, page)
	if err != nil || len(suspects) == 0 {
		return err
	}
	if err := again(ctx); err != nil {
		return err
	}
	ids := make([]string, 0, len(suspects))
	for id := range suspects {
		ids = append(ids, id)
	}
	if page, err = collectOpen(l.store.pool.Query(ctx, verifyOpenAgainSQL, ids)); err != nil {
		return err
	}
	if suspects, err = l.displaced(ctx, page); err != nil {
		return err
	}
	for _, o := range page {
		standing, displaced := suspects[o.ID]
		if !displaced {
			continue
		}
		detail := "is " + o.status + " in Postgres, unknown to Redis"
		if standing.Status != "" {
			detail = fmt.Sprintf("is %s in Postgres; its entry in Redis says %s, but it is in no backlog and no worker has it", o.status,
				standing.Status)
		}
		if err := found(Difference{What: DiffMissing, ID: o.ID, Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

// displaced returns the notifications of a page that should be in Redis and are not.
func (l *Relay) displaced(ctx context.Context, page []open) (map[string]agenda.Standing, error) {
	partitions := map[int][]agenda.Entry{}
	for _, o := range page {
		if o.coming {
			continue
		}
		partition := l.store.agendas.PartitionOf(o.UserID)
		partitions[partition] = append(partitions[partition], o.Entry)
	}
	displaced := map[string]agenda.Standing{}
	for partition, entries := range partitions {
		standings, err := l.store.agendas.Find(ctx, partition, entries)
		if err != nil {
			return nil, err
		}
		for i, s := range standings {
			if !s.Placed() {
				displaced[entries[i].ID] = s
			}
		}
	}
	return displaced, nil
}

// verifyWaiting finds notifications that wait in Redis although they have ended, and users without a wake-up.
func (l *Relay) verifyWaiting(ctx context.Context, found func(Difference) error) error {
	return l.store.agendas.EachWaiting(ctx, verifyBatch, func(page []agenda.Waiting) error {
		if err := l.verifySurplus(ctx, page, found); err != nil {
			return err
		}
		return l.verifyWakeups(ctx, page, found)
	})
}

// endedSQL returns, of some ids, those of notifications that have ended or never existed.
const endedSQL = `
SELECT w.id, coalesce(n.status, 'unknown') FROM unnest($1::text[]) AS w(id)
LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[w.id]) WHERE n.id IS NULL OR n.ended_at IS NOT NULL`

func (l *Relay) verifySurplus(ctx context.Context, page []agenda.Waiting, found func(Difference) error) error {
	ids := make([]string, len(page))
	for i, w := range page {
		ids[i] = w.ID
	}
	ended, err := l.ended(ctx, ids)
	if err != nil || len(ended) == 0 {
		return err
	}
	if err := again(ctx); err != nil {
		return err
	}
	partitions := map[int][]agenda.Entry{}
	for _, w := range page {
		if _, over := ended[w.ID]; over {
			entry := agenda.Entry{ID: w.ID, UserID: w.UserID, Category: w.Category}
			partitions[w.Partition] = append(partitions[w.Partition], entry)
		}
	}
	for partition, entries := range partitions {
		standings, err := l.store.agendas.Find(ctx, partition, entries)
		if err != nil {
			return err
		}
		for i, s := range standings {
			if !s.InLine && !s.Later {
				continue
			}
			id := entries[i].ID
			detail := "waits in Redis, is " + ended[id] + " in Postgres"
			if err := found(Difference{What: DiffSurplus, ID: id, Detail: detail}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Relay) ended(ctx context.Context, ids []string) (map[string]string, error) {
	rows, err := l.store.pool.Query(ctx, endedSQL, ids)
	if err != nil {
		return nil, describe("look up notifications that wait in Redis", err)
	}
	ended := map[string]string{}
	var id, status string
	if _, err := pgx.ForEachRow(rows, []any{&id, &status},
		func() error { ended[id] = status; return nil }); err != nil {
		return nil, describe("look up notifications that wait in Redis", err)
	}
	return ended, nil
}

// verifyWakeups finds the users on a page whose wake-up does not come in time, or who have none.
func (l *Relay) verifyWakeups(ctx context.Context, page []agenda.Waiting, found func(Difference) error) error {
	users := map[int][]string{}
	for _, w := range page {
		if !slices.Contains(users[w.Partition], w.UserID) {
			users[w.Partition] = append(users[w.Partition], w.UserID)
		}
	}
	asleep, err := l.asleep(ctx, users)
	if err != nil || len(asleep) == 0 {
		return err
	}
	if err := again(ctx); err != nil {
		return err
	}
	if asleep, err = l.asleep(ctx, asleep); err != nil {
		return err
	}
	for _, users := range asleep {
		for _, user := range users {
			detail := "something waits, and no wake-up comes in time"
			if err := found(Difference{What: DiffWakeup, ID: user, Detail: detail}); err != nil {
				return err
			}
		}
	}
	return nil
}

// asleep returns the users, by partition, without a wake-up that comes in time.
func (l *Relay) asleep(ctx context.Context, partitions map[int][]string) (map[int][]string, error) {
	asleep := map[int][]string{}
	for partition, users := range partitions {
		awake, err := l.store.agendas.Awake(ctx, partition, users)
		if err != nil {
			return nil, err
		}
		for i, user := range users {
			if !awake[i] {
				asleep[partition] = append(asleep[partition], user)
			}
		}
	}
	return asleep, nil
}
