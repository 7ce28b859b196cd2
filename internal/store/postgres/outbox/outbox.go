// Package outbox is what Redis may not know yet: which notifications wait, and which have ended.
//
// A row of pacer.outbox names some. The transaction that accepts or ends them writes it, and whoever has told Redis
// removes it: the process itself (see [Placer] and [Ends]), or after PlaceTime the relay of any process (see
// [Emptier]). What came through pacer.enqueue the relays check first (see [Checker]).
package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

const (
	// PlaceTime is how long a process has to tell Redis what it accepted or ended, before a relay does: the default of
	// due_at. What is on its way for longer is told twice, and the second time has no effect.
	PlaceTime = 3 * time.Second
	// outboxRow is how many ids a row holds at most, see the migration.
	outboxRow = 1000
	// outboxBatch is how many notifications one transaction takes out of the outbox, the last row's aside.
	outboxBatch = 500
	// outboxPasses is how many batches one round reads that can't be placed, because the Redis of their partitions is
	// away. The next round goes on behind them.
	outboxPasses = 40
)

const (
	// outboxSQL takes the rows that have been due for longest behind a place in the outbox, and that no other process
	// has locked.
	outboxSQL = `
WITH taken AS MATERIALIZED (
	SELECT key, due_at, ids FROM pacer.outbox WHERE NOT unchecked AND due_at <= now() AND (due_at, key) > ($2, $3)
	ORDER BY due_at, key LIMIT $1 FOR UPDATE SKIP LOCKED
)
SELECT key, due_at, ids FROM (
	SELECT *, sum(cardinality(ids)) OVER (ORDER BY due_at, key) - cardinality(ids) AS before FROM taken
) counted WHERE before < $1 ORDER BY due_at, key`
	// namedSQL returns the notifications that rows name, but for those that are being sent: these have reached Redis,
	// unless they are among the changed, $2.
	namedSQL = "SELECT " + namedColumns + ` FROM pacer.notifications
WHERE id = ANY ($1) AND (status <> 'sending' OR id = ANY ($2))`
	namedColumns = `id, user_id, category, channel, target, ` + columns.PlaceSQL + `, send_at, expires_at, collapse_key, group_key,
	accepted_at, arrival, clock_timestamp() - accepted_at, not_before, status = 'retrying', status = 'sending',
	ended_at IS NOT NULL`
	// finishSQL removes rows of which nothing is left to do, and shortenSQL takes ids out of others.
	finishSQL  = "DELETE FROM pacer.outbox WHERE key = ANY ($1)"
	shortenSQL = `
UPDATE pacer.outbox SET ids = ARRAY (SELECT id FROM unnest(ids) AS a(id) WHERE id = ANY ($2)) WHERE key = ANY ($1)`
	// noteEndedSQL notes those of some notifications that have ended.
	noteEndedSQL = `
INSERT INTO pacer.outbox (key, ids) SELECT '~' || id, ARRAY[id] FROM pacer.notifications
WHERE id = ANY ($1) AND ended_at IS NOT NULL ORDER BY id ON CONFLICT DO NOTHING`
)

// outboxIdle is for how many statement time-outs the transaction may wait for Redis while it has rows locked. A process
// that stands still, or vanishes behind a pooler, gives them back then.
const outboxIdle = 6

// options are those of a transaction that takes rows out of the outbox.
func options(stores *seam.Stores) pgx.TxOptions {
	idle := outboxIdle * stores.StatementTimeout
	return pgx.TxOptions{
		BeginQuery: fmt.Sprintf("BEGIN; SET LOCAL idle_in_transaction_session_timeout = %d", idle.Milliseconds()),
	}
}

// place is a place in the outbox; the zero value is its beginning.
type place struct {
	at  time.Time
	key string
}

// outboxed is a row of the outbox.
type outboxed struct {
	place
	ids []string
}

// named is a notification that rows of the outbox name.
type named struct {
	notification.Notification
	age             time.Duration // since its acceptance
	notBefore       time.Time
	retrying, ended bool
	// changed is true when a change of it is noted, sending when it is being sent.
	changed, sending bool
}

// scanNamed reads a row of namedSQL.
func scanNamed(row pgx.CollectableRow) (named, error) {
	var n named
	var channel string
	var sendAt, expiresAt *time.Time
	var notBefore *int64
	err := row.Scan(&n.ID, &n.UserID, &n.Category, &channel, &n.To, &n.Priority, &sendAt, &expiresAt, &n.CollapseKey,
		&n.GroupKey, &n.CreatedAt, &n.Arrival, &n.age, &notBefore, &n.retrying, &n.sending,
		&n.ended)
	n.Channel, n.SendAt, n.ExpiresAt = notification.Channel(channel), columns.Moment(sendAt), columns.Moment(expiresAt)
	n.notBefore = columns.LimiterMoment(notBefore)
	return n, err
}

// Emptier tells Redis what rows of the outbox name.
type Emptier struct {
	stores *seam.Stores
	cursor place // where the next round begins
}

// NewEmptier makes an Emptier.
func NewEmptier(stores *seam.Stores) *Emptier { return &Emptier{stores: stores} }

// Empty tells Redis what rows of the outbox name. Those of a partition that can't take them stay, and do not hold
// up the others.
func (e *Emptier) Empty(ctx context.Context) error {
	away := &partitionsAway{errs: map[int]error{}}
	for passes, more := 0, true; more && passes < outboxPasses; {
		var err error
		if more, err = e.emptyPart(ctx, away); err != nil {
			return limited.Describe("empty the outbox", err)
		}
		if !more {
			e.cursor = place{}
		}
		if len(away.errs) == e.stores.Agendas.Partitions() {
			break // the next round goes on from there
		}
		if len(away.errs) > 0 {
			passes++
		}
	}
	if err := away.err(); err != nil {
		return limited.Describe("empty the outbox", err)
	}
	return nil
}

// emptyPart tells Redis of one batch of the outbox, behind the cursor, and reports whether there may be more.
func (e *Emptier) emptyPart(ctx context.Context, away *partitionsAway) (more bool, err error) {
	var last place
	err = e.stores.DB.InTx(ctx, options(e.stores), func(tx *limited.Tx) error {
		batch, err := e.tellOf(ctx, tx, away, outboxSQL, outboxBatch, e.cursor.at, e.cursor.key)
		ids := 0
		for _, o := range batch {
			ids, last = ids+len(o.ids), o.place
		}
		more = ids >= outboxBatch
		return err
	})
	if err == nil && last != (place{}) {
		e.cursor = last
	}
	return more, err
}

// tellOf tells Redis of the rows of the outbox that a statement takes, and returns them.
func (e *Emptier) tellOf(ctx context.Context, tx *limited.Tx, away *partitionsAway, sql string, args ...any,
) ([]outboxed, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	batch, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o outboxed, err error) {
		return o, row.Scan(&o.key, &o.at, &o.ids)
	})
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	var ids, changed []string
	for _, o := range batch {
		if ids = append(ids, o.ids...); o.isChange() {
			changed = append(changed, o.ids...)
		}
	}
	if rows, err = tx.Query(ctx, namedSQL, ids, changed); err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, scanNamed)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].changed = slices.Contains(changed, all[i].ID)
	}
	placed, left := e.tell(ctx, all, away)
	return batch, finish(ctx, tx, batch, placed, left)
}

// finish removes rows from the outbox but for the ids that are left. What was placed may have ended since it was read,
// and was cancelled in its agenda before it got there: it is noted anew.
func finish(ctx context.Context, tx *limited.Tx, batch []outboxed, placed []string, left map[string]bool) error {
	var done, shorter, stay []string
	for _, o := range batch {
		of := slices.DeleteFunc(slices.Clone(o.ids), func(id string) bool { return !left[id] })
		switch len(of) {
		case 0:
			done = append(done, o.key)
		case len(o.ids):
		default:
			shorter, stay = append(shorter, o.key), append(stay, of...)
		}
	}
	if _, err := tx.Exec(ctx, finishSQL, done); err != nil {
		return err
	}
	if len(shorter) > 0 {
		if _, err := tx.Exec(ctx, shortenSQL, shorter, stay); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, noteEndedSQL, placed)
	return err
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
		if !errors.Is(err, dispatch.ErrLost) && !errors.Is(err, agenda.ErrFull) {
			return err
		}
	}
	return nil
}

// tell puts notifications into their backlogs, one partition at a time, and takes those out that have ended. It returns
// which it placed, and which are left for another time.
func (e *Emptier) tell(ctx context.Context, all []named, away *partitionsAway) (placed []string, left map[string]bool) {
	left = map[string]bool{}
	partitions := map[int][]agenda.Entry{}
	for i := range all {
		n := &all[i]
		partition, told := e.stores.Agendas.PartitionOf(n.UserID), true
		switch {
		case n.ended:
			told = e.removed(ctx, partition, n.ID, away)
		case n.changed:
			told = e.changedIn(ctx, partition, n, away)
		default:
			partitions[partition] = append(partitions[partition], n.entry())
		}
		if !told {
			left[n.ID] = true
		}
	}
	var mu sync.Mutex
	var placing sync.WaitGroup
	for partition, entries := range partitions {
		placing.Go(func() {
			ids, err := []string(nil), error(nil)
			if !away.has(partition) {
				if ids, err = e.placeIn(ctx, partition, entries); err != nil {
					away.note(partition, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			placed = append(placed, ids...)
			for _, e := range entries[len(ids):] {
				left[e.ID] = true
			}
		})
	}
	placing.Wait()
	return placed, left
}

// removed removes a notification that has ended from its agenda, and reports whether it is not there. A rebuild that
// has read it before it ended may still put it there.
func (e *Emptier) removed(ctx context.Context, partition int, id string, away *partitionsAway) bool {
	if away.has(partition) {
		return false
	}
	err := e.stores.Agendas.CancelIn(ctx, partition, id, notification.ReasonCancelled)
	if err == nil || errors.Is(err, notification.ErrNotFound) || errors.Is(err, notification.ErrNotWaiting) {
		return true
	}
	away.note(partition, err)
	return false
}

// entry is the notification as its agenda takes it.
func (n *named) entry() agenda.Entry {
	return agenda.EntryOf(&n.Notification, n.age).RetriedAt(n.notBefore, n.retrying)
}

// placeIn puts notifications of one partition into their backlogs. It returns the ids of those that it placed, the
// first of them, even when it fails.
func (e *Emptier) placeIn(ctx context.Context, partition int, entries []agenda.Entry) ([]string, error) {
	var done []string
	for part := range slices.Chunk(entries, agenda.EntriesAtOnce) {
		if _, err := e.stores.Agendas.Accept(ctx, partition, part); err != nil {
			return done, err
		}
		for _, e := range part {
			done = append(done, e.ID)
		}
	}
	return done, nil
}
