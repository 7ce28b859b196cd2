package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

const (
	// placeTime is how long an accepted notification may take to reach Redis before the relay places it. If it is still
	// on its way then, it is placed twice, and the second time has no effect.
	placeTime = 3 * time.Second
	// unplacedBatch is how many rows of pacer.unplaced one statement takes.
	unplacedBatch = 10
)

// takeUnplacedSQL moves waiting notifications that may not have reached Redis into the outbox. One that is being sent
// has reached it.
const takeUnplacedSQL = `
WITH taken AS MATERIALIZED (
	DELETE FROM pacer.unplaced WHERE first = ANY (ARRAY (
		SELECT first FROM pacer.unplaced WHERE left_at < now() - $1::interval ORDER BY left_at LIMIT $2
			FOR UPDATE SKIP LOCKED))
	RETURNING ids, ` + setLockWait + `
), moved AS (
	INSERT INTO pacer.outbox (id)
	SELECT n.id FROM taken CROSS JOIN unnest(taken.ids) AS a(id) JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id])
	WHERE n.status IN ('waiting', 'retrying')
	ON CONFLICT DO NOTHING
	RETURNING id
)
SELECT (SELECT count(*) FROM taken), (SELECT count(*) FROM moved)`

// divideUnplacedSQL gives each notification of the row that has waited longest a row of its own, and has them wait
// again. So one whose row in the outbox another transaction has locked holds up none of the others.
const divideUnplacedSQL = `
WITH taken AS MATERIALIZED (
	DELETE FROM pacer.unplaced WHERE first = ANY (ARRAY (
		SELECT first FROM pacer.unplaced WHERE left_at < now() - $1::interval ORDER BY left_at LIMIT 1
			FOR UPDATE SKIP LOCKED))
	RETURNING ids
)
INSERT INTO pacer.unplaced (first, ids) SELECT id, ARRAY[id] FROM taken CROSS JOIN unnest(taken.ids) AS a(id)`

// takeUnplaced moves accepted notifications into the outbox that were not placed, because their process died or gave
// up. The accepting transaction itself wrote the rows in pacer.unplaced, so none is missed, however late it committed.
func (r *Relay) takeUnplaced(ctx context.Context) error {
	for most := unplacedBatch; ; {
		var taken, moved int
		err := r.store.db.QueryRow(ctx, takeUnplacedSQL, placeTime, most).Scan(&taken, &moved)
		if limited.LockedOut(err) && most > 1 {
			most = 1
			continue
		}
		if limited.LockedOut(err) {
			_, err = r.store.db.Exec(ctx, divideUnplacedSQL, placeTime)
			taken = most // it goes on with the next
		}
		if err != nil {
			return describe("look for notifications that did not reach Redis", err)
		}
		if moved > 0 {
			r.log.WarnContext(ctx,
				"found accepted notifications that may not have reached Redis; the relay puts them into their backlogs",
				"count", moved)
		}
		if taken < most {
			return nil
		}
	}
}

const (
	// outboxBatch is how many notifications one transaction takes out of the outbox.
	outboxBatch = 500
	// outboxPasses is how many batches one round reads that can't be placed, because the Redis of their partitions is
	// away. The next round goes on behind them.
	outboxPasses = 40
)

const (
	// outboxFrom and outboxWhere take the notifications that have waited longest behind a place in the outbox, and that
	// no other process has locked. A notification that is being sent stays until its result is written, and one that
	// has ended until it is no longer on its way to its backlog. It also says whether it has been refused
	// for as long as $4.
	outboxFrom = `
SELECT n.id, n.ended_at IS NOT NULL, n.status = 'retrying', n.not_before, clock_timestamp() - n.accepted_at, o.left_at, o.unchecked,
	coalesce(o.refused_at < clock_timestamp() - $4::interval, false),` + contentColumns + `
FROM pacer.outbox o JOIN pacer.notifications n ON n.id = ANY (ARRAY[o.id])
WHERE (o.left_at, o.id) > ($2, $3) AND `
	outboxWhere = `
	AND (n.status <> 'sending' OR n.claimed_until < clock_timestamp())
	AND (n.ended_at IS NULL OR NOT EXISTS (SELECT FROM pacer.unplaced u
		WHERE u.left_at BETWEEN n.accepted_at - interval '1 min' AND n.accepted_at + interval '1 min'
		AND n.id = ANY (u.ids)))
ORDER BY o.left_at, o.id LIMIT $1 FOR UPDATE OF o SKIP LOCKED`
	// outboxSQL takes what was not refused. CASE keeps Postgres from believing that nearly all was.
	outboxSQL = outboxFrom + "CASE WHEN o.refused_at IS NULL THEN true ELSE false END" + outboxWhere
	// againSQL takes what was refused.
	againSQL = outboxFrom + "o.refused_at IS NOT NULL" + outboxWhere
)

// leaveOutboxSQL takes notifications out of the outbox. One that was cancelled since it was read, so that its id is not
// in $2, stays for another round: it may have reached its backlog after the cancel had looked there.
const leaveOutboxSQL = `
DELETE FROM pacer.outbox o WHERE o.id = ANY ($1) AND (o.id = ANY ($2) OR NOT EXISTS (
	SELECT FROM pacer.notifications n WHERE n.id = ANY (ARRAY[o.id]) AND n.status = 'cancelled'))`

// outboxIdle is for how many statement time-outs the transaction may wait for Redis while it has rows locked. A process
// that stands still, or vanishes behind a pooler, gives them back then.
const outboxIdle = 6

// outboxOptions are those of the transaction that takes notifications out of the outbox.
func (r *Relay) outboxOptions() pgx.TxOptions {
	idle := outboxIdle * r.store.cfg.StatementTimeout
	return pgx.TxOptions{
		BeginQuery: fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", idle.Milliseconds()),
	}
}

// outboxPlace is a place in the outbox; the zero value is its beginning.
type outboxPlace struct {
	leftAt time.Time
	id     string
}

// outboxed is a notification in the outbox.
type outboxed struct {
	notification.Notification
	ended, retrying   bool
	notBefore, leftAt time.Time
	age               time.Duration // since its acceptance
	// unchecked is true for what a producer wrote into the database, refusedLong when its check has failed for
	// Config.RefusalPatience.
	unchecked, refusedLong bool
}

// scanOutboxed reads a row of outboxSQL.
func scanOutboxed(row pgx.CollectableRow) (outboxed, error) {
	var o outboxed
	var notBefore *int64
	var c content
	err := row.Scan(c.into([]any{
		&o.ID, &o.ended, &o.retrying, &notBefore, &o.age, &o.leftAt, &o.unchecked, &o.refusedLong,
	}, &o.Notification)...)
	c.fill(&o.Notification)
	o.notBefore = limiterMoment(notBefore)
	return o, err
}

// emptyOutbox puts the notifications in the outbox into their backlogs. Those of a partition that can't take them
// stay, and do not hold up the others.
func (r *Relay) emptyOutbox(ctx context.Context) error {
	away := &partitionsAway{errs: map[int]error{}}
	for _, err := range []error{r.lookAgain(ctx, away), r.emptyUnrefused(ctx, away), away.err()} {
		if err != nil {
			return describe("empty the outbox", err)
		}
	}
	return nil
}

// emptyUnrefused empties the outbox but for what was refused.
func (r *Relay) emptyUnrefused(ctx context.Context, away *partitionsAway) error {
	for passes := 0; passes < outboxPasses; {
		part, err := r.emptyPart(ctx, away, false, r.cursor)
		if err != nil {
			return err
		}
		if r.cursor = part.last; part.found < outboxBatch {
			r.cursor = outboxPlace{}
			return nil
		}
		if len(away.errs) == r.store.agendas.Partitions() {
			return nil // the next round goes on from there
		}
		if len(away.errs) > 0 {
			passes++
		}
	}
	return nil
}

// outboxPart is a batch of the outbox: how many were found in it, how many of these are allowed, and the place of the
// last.
type outboxPart struct {
	found, allowed int
	last           outboxPlace
}

// emptyPart puts one batch of the outbox into its backlogs: what stands behind a place, and was refused, or was not.
func (r *Relay) emptyPart(ctx context.Context, away *partitionsAway, refused bool, behind outboxPlace,
) (part outboxPart, err error) {
	err = r.store.db.InTx(ctx, r.outboxOptions(), func(tx *limited.Tx) error {
		batch, err := r.take(ctx, tx, refused, behind)
		if err != nil || len(batch) == 0 {
			return err
		}
		allowed, err := r.refuse(ctx, tx, batch)
		if err != nil {
			return err
		}
		ids := r.place(ctx, allowed, away)
		if _, err := tx.Exec(ctx, leaveOutboxSQL, ids, endedOf(batch)); err != nil {
			return err
		}
		last := batch[len(batch)-1]
		part = outboxPart{found: len(batch), allowed: len(allowed), last: outboxPlace{last.leftAt, last.ID}}
		return noteAllowed(ctx, tx, allowed, ids)
	})
	return part, err
}

// take reads a batch of the outbox.
func (r *Relay) take(ctx context.Context, tx *limited.Tx, refused bool, behind outboxPlace) ([]outboxed, error) {
	var rows pgx.Rows
	var err error
	if patience := r.store.cfg.RefusalPatience; refused {
		rows, err = tx.Query(ctx, againSQL, outboxBatch, behind.leftAt, behind.id, patience)
	} else {
		rows, err = tx.Query(ctx, outboxSQL, outboxBatch, behind.leftAt, behind.id, patience)
	}
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanOutboxed)
}

// partitionsAway are the partitions that failed in a round. They are not tried again in the same round.
type partitionsAway struct {
	mu   sync.Mutex
	errs map[int]error
}

func (a *partitionsAway) note(partition int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs[partition] = err
}

func (a *partitionsAway) has(partition int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.errs[partition] != nil
}

// err returns the error of one. Neither a partition that is being rebuilt nor a full Redis is an error: their
// notifications are placed later.
func (a *partitionsAway) err() error {
	for _, err := range a.errs {
		if !errors.Is(err, agenda.ErrLost) && !errors.Is(err, agenda.ErrFull) {
			return err
		}
	}
	return nil
}

// place puts notifications into their backlogs, one partition at a time, and returns the ids that can leave the
// outbox. It removes from their backlogs those that have ended.
func (r *Relay) place(ctx context.Context, batch []*outboxed, away *partitionsAway) []string {
	var done []string
	partitions := map[int][]agenda.Entry{}
	for _, o := range batch {
		if o.ended {
			if r.removed(ctx, o, away) {
				done = append(done, o.ID)
			}
			continue
		}
		partition := r.store.agendas.PartitionOf(o.UserID)
		partitions[partition] = append(partitions[partition], o.entry())
	}
	var mu sync.Mutex
	var placing sync.WaitGroup
	for partition, entries := range partitions {
		if away.has(partition) {
			continue
		}
		placing.Go(func() {
			ids, err := r.placeIn(ctx, partition, entries)
			if err != nil {
				away.note(partition, err)
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, ids...)
		})
	}
	placing.Wait()
	return done
}

// endedOf returns the ids of those that had ended when they were read.
func endedOf(batch []outboxed) []string {
	ids := []string{}
	for i := range batch {
		if batch[i].ended {
			ids = append(ids, batch[i].ID)
		}
	}
	return ids
}

// removed removes a notification that has ended from its agenda, and reports whether it is not there. A rebuild that
// has read it before it ended may still put it there.
func (r *Relay) removed(ctx context.Context, o *outboxed, away *partitionsAway) bool {
	partition := r.store.agendas.PartitionOf(o.UserID)
	if away.has(partition) {
		return false
	}
	err := r.store.agendas.CancelIn(ctx, partition, o.ID, notification.ReasonCancelled)
	if err == nil || errors.Is(err, notification.ErrNotFound) || errors.Is(err, notification.ErrNotWaiting) {
		return true
	}
	away.note(partition, err)
	return false
}

// entry is the notification as its agenda takes it.
func (o *outboxed) entry() agenda.Entry {
	return retriedAt(entryOf(&o.Notification, o.age), o.notBefore, o.retrying)
}

// retriedAt is an entry whose retry is due at a moment, or was; zero for one that was never tried. That moment also
// counts when its retry was returned untried: it has not been deferred for longer than since then.
func retriedAt(e agenda.Entry, at time.Time, retrying bool) agenda.Entry {
	e.Retrying = retrying
	if at.After(e.SendAt) {
		e.SendAt = at
	}
	return e
}

// placeIn puts notifications of one partition into their backlogs. It returns the ids of those that it placed, even
// when it fails.
func (r *Relay) placeIn(ctx context.Context, partition int, entries []agenda.Entry) ([]string, error) {
	var done []string
	for part := range slices.Chunk(entries, putBatch) {
		if _, err := r.store.agendas.Accept(ctx, partition, part); err != nil {
			return done, err
		}
		for _, e := range part {
			done = append(done, e.ID)
		}
	}
	return done, nil
}
