package postgres

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
)

// RelayConfig of a Relay.
type RelayConfig struct {
	Queue dispatch.Queue
	// Check refuses a notification that came through the outbox and that the policy or its channel does not allow; what a
	// producer writes into the database was not asked about. Its error becomes the reason of the failure.
	Check func(*notification.Notification) error
	// Windows is the longest window of any rule: admissions older than that need not be counted again.
	Windows func() time.Duration
	// Rebuilt is told that lanes have been rebuilt, so that what else the deployment keeps in Redis is written again.
	Rebuilt func(ctx context.Context)
	// Interval between two looks. Defaults to 500 ms.
	Interval time.Duration
}

// Relay brings Redis to what the database says: it puts what waits in the outbox into line, finds what was lost on the way,
// writes down what the mailboxes ended by themselves, rebuilds lanes that lost their state, and purges what is old. Any
// number of processes may run one; they share the work or take turns.
type Relay struct {
	cfg    RelayConfig
	record *Record
	log    *slog.Logger

	searchedTo time.Time // on the database's clock
	purgedAt   time.Time
}

// NewRelay makes a Relay.
func NewRelay(record *Record, cfg RelayConfig) *Relay {
	if cfg.Interval == 0 {
		cfg.Interval = 500 * time.Millisecond
	}
	return &Relay{cfg: cfg, record: record, log: record.cfg.Log}
}

// Run works until ctx ends.
func (l *Relay) Run(ctx context.Context) {
	ticker := time.NewTicker(l.cfg.Interval)
	defer ticker.Stop()
	away := false
	for {
		err := l.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !away:
			l.log.WarnContext(ctx, "the relay can't reach Postgres or Redis; it goes on trying", "error", err)
		case err == nil && away:
			l.log.InfoContext(ctx, "the relay reaches Postgres and Redis again")
		}
		away = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Round does once what Run does over and over.
func (l *Relay) Round(ctx context.Context) error {
	if _, err := l.RebuildLost(ctx); err != nil {
		return err
	}
	if mutation("no-sweeper") {
		return nil
	}
	return errors.Join(l.emptyOutbox(ctx), l.searchRecent(ctx), l.writeEnds(ctx), l.purge(ctx))
}

// outboxBatch is how many notifications one transaction takes out of the outbox.
const outboxBatch = 500

// outboxSQL takes what has waited longest and nobody else is at. One that is being sent stays until that is decided.
const outboxSQL = `
SELECT n.id, n.user_id, n.category, n.channel, n.target, n.title, n.body, n.data::text, n.priority, n.send_at, n.expires_at,
	n.collapse_key, n.ended_at IS NOT NULL, n.status = 'retrying', n.not_before
FROM pacer.outbox o JOIN pacer.notifications n USING (id)
WHERE n.status <> 'sending' OR n.claimed_until < clock_timestamp()
ORDER BY o.left_at LIMIT $1 FOR UPDATE OF o SKIP LOCKED`

// outboxed is a notification in the outbox.
type outboxed struct {
	notification.Notification
	ended, retrying bool
	notBefore       time.Time
}

func scanOutboxed(row pgx.CollectableRow) (outboxed, error) {
	var o outboxed
	var channel string
	var data *string
	var sendAt, expiresAt, notBefore *time.Time
	err := row.Scan(&o.ID, &o.UserID, &o.Category, &channel, &o.To, &o.Title, &o.Body, &data, &o.Priority, &sendAt, &expiresAt,
		&o.CollapseKey, &o.ended, &o.retrying, &notBefore)
	o.Channel = notification.Channel(channel)
	o.SendAt, o.ExpiresAt, o.notBefore = moment(sendAt), moment(expiresAt), moment(notBefore)
	if data != nil {
		o.Data = []byte(*data)
	}
	return o, err
}

// emptyOutbox puts what is in the outbox into line.
func (l *Relay) emptyOutbox(ctx context.Context) error {
	for {
		moved := 0
		err := pgx.BeginFunc(ctx, l.record.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, outboxSQL, outboxBatch)
			if err != nil {
				return err
			}
			batch, err := pgx.CollectRows(rows, scanOutboxed)
			if err != nil || len(batch) == 0 {
				return err
			}
			moved = len(batch)
			ids, err := l.place(ctx, tx, batch)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "DELETE FROM pacer.outbox WHERE id = ANY ($1)", ids)
			return err
		})
		switch {
		case errors.Is(err, mailbox.ErrLost):
			return nil // the rebuild puts them into line, or the next round does
		case err != nil:
			return describe("empty the outbox", err)
		case moved < outboxBatch:
			return nil
		}
	}
}

// place puts notifications into line and gives their ids; one that must not be is ended.
func (l *Relay) place(ctx context.Context, tx pgx.Tx, batch []outboxed) ([]string, error) {
	ids := make([]string, len(batch))
	lanes := map[int][]mailbox.Entry{}
	for i := range batch {
		o := &batch[i]
		ids[i] = o.ID
		if o.ended {
			continue
		}
		if err := l.cfg.Check(&o.Notification); err != nil {
			end := mailbox.End{ID: o.ID, Status: notification.StatusFailed, Reason: "refused: " + err.Error()}
			if _, err := endAll(ctx, tx, end); err != nil {
				return nil, err
			}
			continue
		}
		entry := entryOf(&o.Notification)
		if o.retrying {
			entry.Retrying, entry.SendAt = true, o.notBefore
		}
		lane := l.record.boxes.LaneOf(o.UserID)
		lanes[lane] = append(lanes[lane], entry)
	}
	for lane, entries := range lanes {
		for len(entries) > 0 {
			part := entries[:min(putBatch, len(entries))]
			entries = entries[len(part):]
			placed, err := l.record.boxes.Put(ctx, lane, part)
			if err != nil {
				return nil, err
			}
			if err := l.enqueue(ctx, lane, part, placed); err != nil {
				return nil, err
			}
		}
	}
	return ids, nil
}

// enqueue puts the ticks of notifications into the queue.
func (l *Relay) enqueue(ctx context.Context, lane int, entries []mailbox.Entry, placed []mailbox.Placed) error {
	alarms := make([]dispatch.Alarm, len(entries))
	for i, e := range entries {
		alarms[i] = dispatch.Alarm{After: placed[i].DueIn, Tick: dispatch.Tick{
			ID: e.ID, Mailbox: dispatch.Mailbox{Lane: lane, UserID: e.UserID, Category: e.Category},
		}}
	}
	return l.cfg.Queue.Enqueue(ctx, alarms...)
}

const (
	// searchBack is how far back what was accepted is looked for in Redis; searchAfter is how long accepting has for it.
	searchBack  = time.Minute
	searchAfter = 3 * time.Second
	// searchBatch is how many are looked for at a time.
	searchBatch = 5000
)

// searchLock is the advisory lock of the process that searches: "search" in ASCII.
const searchLock = 0x736561726368

// recentSQL gives what was accepted between two moments and waits.
const recentSQL = `
SELECT id, user_id, accepted_at FROM pacer.notifications
WHERE ended_at IS NULL AND status <> 'sending' AND accepted_at > $1 AND accepted_at < $2
ORDER BY accepted_at, id LIMIT $3`

// searchRecent finds what was accepted and did not reach Redis, because its process died in between, and leaves it in the
// outbox.
func (l *Relay) searchRecent(ctx context.Context) error {
	err := pgx.BeginFunc(ctx, l.record.pool, func(tx pgx.Tx) error {
		var mine bool
		var now time.Time
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1), clock_timestamp()", int64(searchLock)).Scan(&mine, &now); err != nil || !mine {
			return err
		}
		from := l.searchedTo
		if back := now.Add(-searchBack); from.Before(back) {
			from = back
		}
		rows, err := tx.Query(ctx, recentSQL, from, now.Add(-searchAfter), searchBatch)
		if err != nil {
			return err
		}
		var ids, users []string
		var id, user string
		var at time.Time
		if _, err := pgx.ForEachRow(rows, []any{&id, &user, &at}, func() error {
			ids, users = append(ids, id), append(users, user)
			return nil
		}); err != nil {
			return err
		}
		if len(ids) < searchBatch {
			at = now.Add(-searchAfter)
		}
		if err := l.leaveUnknown(ctx, tx, users, ids); err != nil {
			return err
		}
		l.searchedTo = at
		return nil
	})
	if err != nil {
		return describe("look for what did not reach Redis", err)
	}
	return nil
}

// leaveUnknown leaves those of the notifications in the outbox that Redis does not know.
func (l *Relay) leaveUnknown(ctx context.Context, tx pgx.Tx, users, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	known, err := l.record.boxes.Knows(ctx, users, ids)
	if err != nil {
		return err
	}
	var unknown []string
	for i, id := range ids {
		if !known[i] {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	l.log.WarnContext(ctx, "found accepted notifications that did not reach Redis; the relay puts them into line", "count", len(unknown))
	_, err = tx.Exec(ctx, "INSERT INTO pacer.outbox (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", unknown)
	return err
}

const (
	// purgeInterval is how often what is old is looked for, purgeBatch how much of it goes in one statement.
	purgeInterval = time.Minute
	purgeBatch    = 1000
)

// purge removes notifications that ended longer ago than they are kept, their attempts, and idempotency keys that have
// expired.
func (l *Relay) purge(ctx context.Context) error {
	if time.Since(l.purgedAt) < purgeInterval {
		return nil
	}
	l.purgedAt = time.Now()
	_, err := l.record.Purge(ctx)
	return err
}

const purgeSQL = `
WITH old AS (
	SELECT id FROM pacer.notifications
	WHERE ended_at < now() - $1::interval AND accepted_at < now() - $1::interval
	ORDER BY accepted_at, id LIMIT $2 FOR UPDATE SKIP LOCKED
), attempts AS (
	DELETE FROM pacer.attempts WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
), deliveries AS (
	DELETE FROM pacer.deliveries WHERE notification_id = ANY (ARRAY (SELECT id FROM old))
)
DELETE FROM pacer.notifications WHERE id = ANY (ARRAY (SELECT id FROM old))`

// Purge removes what is older than the retention, and tells how many notifications that were.
func (r *Record) Purge(ctx context.Context) (int64, error) {
	total := int64(0)
	for {
		tag, err := r.pool.Exec(ctx, purgeSQL, r.cfg.Retention, purgeBatch)
		if err != nil {
			return total, describe("purge what is old", err)
		}
		total += tag.RowsAffected()
		if tag.RowsAffected() < purgeBatch {
			break
		}
	}
	if _, err := r.pool.Exec(ctx, "DELETE FROM pacer.idempotency_keys WHERE expires_at < clock_timestamp()"); err != nil {
		return total, describe("purge idempotency keys", err)
	}
	return total, nil
}
