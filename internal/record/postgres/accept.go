package postgres

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
)

const (
	// insertBatch is how many notifications one statement accepts, putBatch how many one script puts into line.
	insertBatch = 1000
	putBatch    = 64
)

// insertSQL accepts what is new, and tells of all that was asked when it, or the first with its id, was accepted. What the
// user has opted out of is accepted too, and known as such.
const insertSQL = `
WITH asked AS (
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
		$9::int[], $10::timestamptz[], $11::timestamptz[], $12::text[], $13::text[], $14::text[])
	WITH ORDINALITY AS a(id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override, traceparent, place)
), fresh AS (
	INSERT INTO pacer.notifications
		(id, user_id, category, channel, target, title, body, data, priority, send_at, expires_at, collapse_key, override, traceparent)
	SELECT id, user_id, category, channel, target, title, body, data::json, priority, send_at, expires_at, collapse_key, override::json, traceparent
	FROM asked ORDER BY place
	ON CONFLICT (id) DO NOTHING
	RETURNING id, accepted_at
)
SELECT coalesce(f.accepted_at, n.accepted_at), f.id IS NOT NULL, coalesce(n.user_id = a.user_id, true),
	EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = a.user_id
		AND (a.category = ANY (p.opt_out_categories) OR a.channel = ANY (p.opt_out_channels)))
FROM asked a LEFT JOIN fresh f USING (id) LEFT JOIN pacer.notifications n USING (id)
ORDER BY a.place`

// acceptance is what the database did with a notification.
type acceptance struct {
	at time.Time
	// fresh is true for the one that was accepted now, sameUser unless its id belongs to another user's.
	fresh, sameUser, optedOut bool
}

// Accept implements [intake.Record]. It has accepted what it says once the database has, even when Redis is away.
func (r *Record) Accept(ctx context.Context, batch []*notification.Notification) ([]intake.Accepted, error) {
	found, err := r.insertBatches(ctx, batch)
	if err != nil {
		return nil, err
	}
	accepted := make([]intake.Accepted, len(batch))
	lanes := map[int][]*notification.Notification{}
	for i, n := range batch {
		box := dispatch.Mailbox{Lane: r.boxes.LaneOf(n.UserID), UserID: n.UserID, Category: n.Category}
		accepted[i] = intake.Accepted{At: found[i].at, Known: !found[i].fresh, Tick: dispatch.Tick{ID: n.ID, Mailbox: box}}
		if !found[i].sameUser {
			accepted[i].At = time.Time{}
		}
		if !found[i].fresh {
			continue
		}
		if accepted[i].DueIn = time.Until(n.SendAt); n.SendAt.IsZero() || accepted[i].DueIn < 0 {
			accepted[i].DueIn = 0
		}
		lanes[box.Lane] = append(lanes[box.Lane], n)
	}
	var putting sync.WaitGroup
	for lane, notifications := range lanes {
		putting.Go(func() { r.putIntoLine(ctx, lane, notifications) })
	}
	putting.Wait()
	for i, n := range batch {
		if found[i].fresh && found[i].optedOut {
			if err := r.end(ctx, n.ID, notification.StatusCancelled, notification.ReasonOptedOut); err != nil {
				r.cfg.Log.WarnContext(ctx, "cancel what its user opted out of; it is cancelled when it is its turn", "notification_id", n.ID, "error", err)
			}
		}
	}
	return accepted, nil
}

// insertBatches writes single notifications together with those of other callers, and many in statements of their own.
func (r *Record) insertBatches(ctx context.Context, batch []*notification.Notification) ([]acceptance, error) {
	if len(batch) == 1 {
		a, err := r.accepts.Ask(ctx, batch[0])
		return []acceptance{a}, err
	}
	var found []acceptance
	for len(batch) > 0 {
		part := batch[:min(insertBatch, len(batch))]
		batch = batch[len(part):]
		answers, err := r.insert(ctx, part)
		if err != nil {
			return nil, err
		}
		found = append(found, answers...)
	}
	return found, nil
}

// insert runs insertSQL.
func (r *Record) insert(ctx context.Context, batch []*notification.Notification) ([]acceptance, error) {
	ctx, cancel := bounded(ctx, r.cfg.AcceptTimeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, insertSQL, columns(batch)...)
	if err != nil {
		return nil, describe("accept notifications", err)
	}
	answers, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (acceptance, error) {
		var a acceptance
		var at *time.Time
		err := row.Scan(&at, &a.fresh, &a.sameUser, &a.optedOut)
		if at != nil { // else another transaction accepted the same id just now
			a.at = *at
		}
		return a, err
	})
	if err != nil {
		return nil, describe("accept notifications", err)
	}
	seen := make(map[string]bool, len(batch))
	for i, n := range batch {
		answers[i].fresh = answers[i].fresh && !seen[n.ID] // twice in one batch is once new, once known
		seen[n.ID] = true
	}
	return answers, nil
}

// columns turns notifications into the arrays that insertSQL takes.
func columns(batch []*notification.Notification) []any {
	n := len(batch)
	id, user, category, channel := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	target, title, body := make([]string, n), make([]string, n), make([]string, n)
	data, override, trace := make([]*string, n), make([]*string, n), make([]string, n)
	priority, sendAt, expiresAt, collapse := make([]int32, n), make([]*time.Time, n), make([]*time.Time, n), make([]string, n)
	for i, x := range batch {
		id[i], user[i], category[i], channel[i] = x.ID, x.UserID, x.Category, string(x.Channel)
		target[i], title[i], body[i], collapse[i] = x.To, x.Title, x.Body, x.CollapseKey
		priority[i], sendAt[i], expiresAt[i] = int32(x.Priority), timestamp(x.SendAt), timestamp(x.ExpiresAt)
		data[i], override[i], trace[i] = document(x.Data), document(x.Override), x.TraceParent
	}
	return []any{id, user, category, channel, target, title, body, data, priority, sendAt, expiresAt, collapse, override, trace}
}

// document is NULL for no JSON.
func document(text json.RawMessage) *string {
	if len(text) == 0 {
		return nil
	}
	value := string(text)
	return &value
}

// timestamp is NULL for the zero time.
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// putIntoLine puts accepted notifications into their mailboxes. What does not get there goes to the outbox, from where
// the relay brings it later; should even that fail, the relay finds it by looking.
func (r *Record) putIntoLine(ctx context.Context, lane int, notifications []*notification.Notification) {
	for len(notifications) > 0 {
		part := notifications[:min(putBatch, len(notifications))]
		notifications = notifications[len(part):]
		entries := make([]mailbox.Entry, 0, len(part))
		ids := make([]string, len(part))
		for i, n := range part {
			ids[i] = n.ID
			if i%3 == 0 && mutation("lose-enqueue") {
				continue
			}
			entries = append(entries, entryOf(n))
		}
		_, err := r.boxes.Put(ctx, lane, entries)
		if err == nil {
			continue
		}
		r.cfg.Log.WarnContext(ctx, "put accepted notifications into line; the relay will", "count", len(part), "lane", lane, "error", err)
		if err := r.leaveInOutbox(ctx, ids); err != nil {
			r.cfg.Log.WarnContext(ctx, "leave accepted notifications in the outbox; the relay will find them", "count", len(part), "error", err)
		}
	}
}

func entryOf(n *notification.Notification) mailbox.Entry {
	return mailbox.Entry{
		ID: n.ID, UserID: n.UserID, Category: n.Category, Priority: n.Priority, SendAt: n.SendAt, ExpiresAt: n.ExpiresAt,
		CollapseKey: n.CollapseKey,
	}
}

// leaveInOutbox has the relay put notifications into line.
func (r *Record) leaveInOutbox(ctx context.Context, ids []string) error {
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	_, err := r.pool.Exec(ctx, "INSERT INTO pacer.outbox (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", ids)
	return err
}
