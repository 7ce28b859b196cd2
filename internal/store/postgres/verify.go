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
)

// Verify compares Redis with the database and calls found with every difference. It changes nothing, and may run while
// the deployment works: what differs is looked at again until it is sure, see [doubts].
func (r *Relay) Verify(ctx context.Context, found func(Difference) error) error {
	for _, part := range []func(context.Context, func(Difference) error) error{
		r.verifyEpochs, r.verifyOpen, r.verifyWaiting, r.verifyWindows,
	} {
		if err := part(ctx, found); err != nil {
			return err
		}
	}
	return nil
}

// verifyEpochs finds partitions that are not in the state that the database knows.
func (r *Relay) verifyEpochs(ctx context.Context, found func(Difference) error) error {
	identity, err := r.store.agendas.Identity(ctx)
	if err != nil {
		return err
	}
	_, partitions, err := r.lost(ctx, identity, false)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		detail := "has lost its state, or was built on another server or from another database; it is about to be rebuilt"
		if err := found(Difference{What: DiffEpoch, ID: strconv.Itoa(partition), Detail: detail}); err != nil {
			return err
		}
	}
	return nil
}

// verifyOpenSQL returns a page of the notifications that have not ended, verifyOpenAgainSQL those of some ids; whether
// the relay will place each, and the version of its row, which every change raises. Only the second look reads the whole
// outbox.
const (
	verifyOpenSQL = `
SELECT n.id, n.user_id, n.category, n.status, n.accepted_at,
	` + uncheckedSQL + `, n.xmin::text
FROM pacer.notifications n
WHERE n.ended_at IS NULL AND (n.accepted_at, n.id) > ($1, $2)
ORDER BY n.accepted_at, n.id LIMIT $3`
	verifyOpenAgainSQL = `
SELECT n.id, n.user_id, n.category, n.status, n.accepted_at,
	n.id IN (SELECT unnest(ids) FROM pacer.outbox), n.xmin::text
FROM pacer.notifications n
WHERE n.id = ANY ($1) AND n.status IN ('waiting', 'retrying', 'sending')`
)

// displacement is a notification that has not ended, the version of its row, and where it stands in Redis: in no place
// that leads to its end.
type displacement struct {
	open
	coming   bool // a relay will place it
	version  string
	standing agenda.Standing
}

// verifyOpen finds notifications that have not ended and are not in Redis.
func (r *Relay) verifyOpen(ctx context.Context, found func(Difference) error) error {
	missing := doubts[displacement]{look: r.displacedAgain, found: func(d displacement) error {
		detail := "is " + d.status + " in Postgres, unknown to Redis"
		if d.standing.Status != "" {
			detail = fmt.Sprintf(
				"is %s in Postgres; its entry in Redis says %s, but it is in no backlog and no worker has it",
				d.status, d.standing.Status)
		}
		return found(Difference{What: DiffMissing, ID: d.ID, Detail: detail})
	}}
	at, id := time.Time{}, ""
	for {
		page, err := collectOpen(r.store.pool.Query(ctx, verifyOpenSQL, at, id, verifyBatch))
		if err != nil {
			return err
		}
		displaced, err := r.displaced(ctx, page)
		if err != nil {
			return err
		}
		if err := missing.add(ctx, displaced...); err != nil {
			return err
		}
		if len(page) < verifyBatch {
			return missing.settle(ctx)
		}
		at, id = page[len(page)-1].acceptedAt, page[len(page)-1].ID
	}
}

// collectOpen reads the rows of verifyOpenSQL or verifyOpenAgainSQL.
func collectOpen(rows pgx.Rows, err error) ([]displacement, error) {
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d displacement, err error) {
		return d, row.Scan(&d.ID, &d.UserID, &d.Category, &d.status, &d.acceptedAt, &d.coming, &d.version)
	})
	if err != nil {
		return nil, describe("read the notifications that have not ended", err)
	}
	return page, nil
}

// displacedAgain returns those that are still displaced. It reads their rows before and after it looks at Redis:
// Postgres learns of a step first, so one whose row is the same at both times took none that Redis could know of.
func (r *Relay) displacedAgain(ctx context.Context, suspects []displacement) ([]displacement, error) {
	before, err := r.openAgain(ctx, suspects)
	if err != nil {
		return nil, err
	}
	displaced, err := r.displaced(ctx, before)
	if err != nil || len(displaced) == 0 {
		return nil, err
	}
	after, err := r.openAgain(ctx, displaced)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]string, len(after))
	for _, d := range after {
		versions[d.ID] = d.version
	}
	return slices.DeleteFunc(displaced, func(d displacement) bool { return versions[d.ID] != d.version }), nil
}

// openAgain reads the rows of some notifications, of those that have not ended.
func (r *Relay) openAgain(ctx context.Context, of []displacement) ([]displacement, error) {
	ids := make([]string, len(of))
	for i, d := range of {
		ids[i] = d.ID
	}
	return collectOpen(r.store.pool.Query(ctx, verifyOpenAgainSQL, ids))
}

// displaced returns the notifications of a page that should be in Redis and are not.
func (r *Relay) displaced(ctx context.Context, page []displacement) ([]displacement, error) {
	partitions := map[int][]displacement{}
	for _, d := range page {
		if !d.coming {
			partition := r.store.agendas.PartitionOf(d.UserID)
			partitions[partition] = append(partitions[partition], d)
		}
	}
	var displaced []displacement
	for partition, some := range partitions {
		entries := make([]agenda.Entry, len(some))
		for i, d := range some {
			entries[i] = d.Entry
		}
		standings, err := r.store.agendas.Find(ctx, partition, entries)
		if err != nil {
			return nil, err
		}
		for i, s := range standings {
			if !s.Placed() {
				some[i].standing = s
				displaced = append(displaced, some[i])
			}
		}
	}
	return displaced, nil
}

// surplus is a notification that waits in Redis, and its status in Postgres, where it has ended.
type surplus struct {
	agenda.Waiting
	status string
}

// sleeper is a user without a wake-up that comes in time.
type sleeper struct {
	partition int
	userID    string
}

// verifyWaiting finds notifications that wait in Redis although they have ended, and users without a wake-up.
func (r *Relay) verifyWaiting(ctx context.Context, found func(Difference) error) error {
	ended := doubts[surplus]{look: r.surplusAgain, found: func(s surplus) error {
		detail := "waits in Redis, is " + s.status + " in Postgres"
		return found(Difference{What: DiffSurplus, ID: s.ID, Detail: detail})
	}}
	asleep := doubts[sleeper]{look: r.asleep, found: func(s sleeper) error {
		detail := "something waits, but no wake-up is set for it in time"
		return found(Difference{What: DiffWakeup, ID: s.userID, Detail: detail})
	}}
	err := r.store.agendas.EachWaiting(ctx, verifyBatch, func(page []agenda.Waiting) error {
		all := make([]surplus, len(page))
		var users []sleeper
		for i, w := range page {
			all[i].Waiting = w
			if user := (sleeper{w.Partition, w.UserID}); !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
		some, err := r.ended(ctx, all)
		if err != nil {
			return err
		}
		users, err = r.asleep(ctx, users)
		if err != nil {
			return err
		}
		if err := ended.add(ctx, some...); err != nil {
			return err
		}
		return asleep.add(ctx, slices.DeleteFunc(users, func(s sleeper) bool {
			return slices.Contains(asleep.suspects, s) // from the page before
		})...)
	})
	if err != nil {
		return err
	}
	if err := ended.settle(ctx); err != nil {
		return err
	}
	return asleep.settle(ctx)
}

// endedSQL returns, of some ids, those of notifications that have ended or never existed. What is in the outbox the
// relay removes.
const endedSQL = `
SELECT w.id, coalesce(n.status, 'unknown') FROM unnest($1::text[]) AS w(id)
LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[w.id])
WHERE n.id IS NULL OR n.ended_at IS NOT NULL AND NOT EXISTS (
	SELECT FROM pacer.outbox o WHERE o.key = ANY (ARRAY['~' || w.id]))`

// ended returns those that have ended, with their statuses.
func (r *Relay) ended(ctx context.Context, of []surplus) ([]surplus, error) {
	ids := make([]string, len(of))
	for i, s := range of {
		ids[i] = s.ID
	}
	rows, err := r.store.pool.Query(ctx, endedSQL, ids)
	if err != nil {
		return nil, describe("look up notifications that wait in Redis", err)
	}
	statuses := map[string]string{}
	var id, status string
	if _, err := pgx.ForEachRow(rows, []any{&id, &status},
		func() error { statuses[id] = status; return nil }); err != nil {
		return nil, describe("look up notifications that wait in Redis", err)
	}
	for i := range of {
		of[i].status = statuses[of[i].ID]
	}
	return slices.DeleteFunc(of, func(s surplus) bool { return s.status == "" }), nil
}

// surplusAgain returns those that still wait in Redis. An end in Postgres is for ever.
func (r *Relay) surplusAgain(ctx context.Context, suspects []surplus) ([]surplus, error) {
	partitions := map[int][]surplus{}
	for _, s := range suspects {
		partitions[s.Partition] = append(partitions[s.Partition], s)
	}
	var still []surplus
	for partition, some := range partitions {
		entries := make([]agenda.Entry, len(some))
		for i, s := range some {
			entries[i] = agenda.Entry{ID: s.ID, UserID: s.UserID, Category: s.Category}
		}
		standings, err := r.store.agendas.Find(ctx, partition, entries)
		if err != nil {
			return nil, err
		}
		for i, s := range standings {
			if s.InLine || s.Later {
				still = append(still, some[i])
			}
		}
	}
	return still, nil
}

// asleep returns the users, of some, who have no wake-up that comes in time.
func (r *Relay) asleep(ctx context.Context, of []sleeper) ([]sleeper, error) {
	partitions := map[int][]string{}
	for _, s := range of {
		partitions[s.partition] = append(partitions[s.partition], s.userID)
	}
	var asleep []sleeper
	for partition, users := range partitions {
		awake, err := r.store.agendas.Awake(ctx, partition, users)
		if err != nil {
			return nil, err
		}
		for i, user := range users {
			if !awake[i] {
				asleep = append(asleep, sleeper{partition, user})
			}
		}
	}
	return asleep, nil
}
