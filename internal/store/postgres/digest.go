package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/agenda/outlook"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
)

// A digest in the database: its carrier is claimed and settled like any other. The rows of its items are 'sending'
// without a lease of their own, until the carrier's result ends them or lets them go, or until the carrier has another
// claim, or none; digest_id names the carrier in all of them, the carrier included. While a row waits, digest_id says that it carries a digest that may have reached
// somebody: nothing that only concerns the carrier ends it.

// joinSQL has items go with carriers that were claimed just now. It passes over what must not be sent, is not due yet,
// or is locked, unless it went with the carrier before.
const joinSQL = `
WITH asked AS MATERIALIZED (
	SELECT a.*, c.admitted_at, c.policy_version, c.zone
	FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::text[], $6::int[])
		AS a(carrier, token, id, deferrals, history, place)
	JOIN pacer.notifications c ON c.id = ANY (ARRAY[a.carrier]) AND c.token = a.token AND c.status = 'sending'
), free AS MATERIALIZED (
	SELECT n.id FROM pacer.notifications n JOIN asked a ON n.id = a.id
	WHERE n.status = 'sending' AND n.digest_id = a.carrier
		OR (n.status IN ('waiting', 'retrying') OR ` + columns.LapsedSQL + `)
			AND (n.expires_at IS NULL OR n.expires_at > clock_timestamp())
			AND ` + earlySQL + ` IS NOT TRUE
			AND NOT ` + columns.OptedOutSQL + `
			AND NOT ` + columns.SupersededSQL + `
	FOR NO KEY UPDATE OF n SKIP LOCKED
), joined AS (
	UPDATE pacer.notifications n SET
		status = 'sending', digest_id = a.carrier, token = a.token, claimed_until = NULL,
		admitted_at = a.admitted_at, policy_version = a.policy_version, zone = a.zone,
		generation = n.generation + (n.digest_id <> a.carrier)::int,
		deferrals = greatest(n.deferrals, a.deferrals),
		history = CASE WHEN starts_with(a.history, n.history) THEN a.history ELSE n.history || a.history END
	FROM asked a JOIN free USING (id)
	WHERE n.id = ANY (ARRAY[a.id])
	RETURNING a.place, a.carrier, n.id,` + columns.ContentColumns + `
), marked AS (
	UPDATE pacer.notifications c SET digest_id = c.id FROM (SELECT DISTINCT carrier FROM joined) j
	WHERE c.id = ANY (ARRAY[j.carrier]) AND c.digest_id = ''
)
SELECT n.place, n.id,` + columns.ContentColumns + ` FROM joined n`

// queueJoins adds joinSQL to the statements of a claim, when some carry items. It notes in joined what goes with each.
func queueJoins(statements *pgx.Batch, requests []claimRequest, joined [][]*notification.Notification) {
	var carriers, tokens, ids, histories []string
	var deferrals, places []int32
	for i, q := range requests {
		for _, item := range q.Items {
			carriers, tokens = append(carriers, q.Notification.ID), append(tokens, columns.Token(q.Grant))
			history, times := q.knownOf(item)
			ids, histories = append(ids, item), append(histories, columns.Storable(history))
			deferrals, places = append(deferrals, int32(times)), append(places, int32(i))
		}
	}
	if len(ids) == 0 {
		return
	}
	statements.Queue(joinSQL, carriers, tokens, ids, deferrals, histories, places).Query(func(rows pgx.Rows) error {
		defer rows.Close()
		var place int
		for rows.Next() {
			n, content := &notification.Notification{}, columns.Content{}
			if err := rows.Scan(content.Into([]any{&place, &n.ID}, n)...); err != nil {
				return err
			}
			content.Fill(n)
			joined[place] = append(joined[place], n)
		}
		return rows.Err()
	})
}

// readItems reads what Redis knows of the items of a grant: without it, their rows lack a line of history.
func (d *deliveries) readItems(ctx context.Context, g *dispatch.Grant) []*agenda.State {
	if len(g.Items) == 0 {
		return nil
	}
	states, _ := outlook.Of(d.stores.Agendas.Agendas).Known(ctx, g.Partition, g.Items)
	return states
}

// knownOf is the history that Redis knows of an item, and how often it was deferred.
func (q claimRequest) knownOf(item string) (history string, deferrals int) {
	for _, s := range q.items {
		if s.ID == item {
			return s.Lines, s.Deferrals
		}
	}
	return "", 0
}

// gather completes a grant that carries a digest by what joined it. The others go back to their places in the backlog.
func (d *deliveries) gather(ctx context.Context, g *dispatch.Grant, joined []*notification.Notification) error {
	if len(g.Items) == 0 {
		return nil
	}
	here := map[string]bool{}
	for _, n := range joined {
		here[n.ID] = true
	}
	var left, items []string
	for _, id := range g.Items {
		if here[id] {
			items = append(items, id)
		} else {
			left = append(left, id)
		}
	}
	if len(items) > 0 {
		g.Digest = append(joined, g.Notification)
	}
	if len(left) == 0 {
		return nil
	}
	if err := d.stores.Agendas.Part(ctx, g, left); err != nil {
		return fmt.Errorf("take notifications out of the digest %s: %w", g.Notification.ID, err)
	}
	g.Items = items
	return nil
}

// itemsSQL has the items of digests become what their carriers have become: they end, or go on by themselves.
const itemsSQL = `
WITH asked AS (
	SELECT * FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::int[])
		AS a(carrier, claim, id, status, wait_us, failure)
), items AS (
	UPDATE pacer.notifications n SET status = a.status, claimed_until = NULL,
		reason = CASE WHEN a.status IN ('delivered', 'failed') THEN $7 ELSE c.reason END,
		ended_at = CASE WHEN a.status IN ('delivered', 'failed') THEN c.ended_at END,
		not_before = CASE WHEN a.status = 'retrying' THEN c.admitted_at + a.wait_us ELSE n.not_before END,
		failures = n.failures + a.failure,
		digest_id = CASE WHEN a.status IN ('delivered', 'failed') THEN n.digest_id ELSE '' END
	FROM asked a JOIN pacer.notifications c ON c.id = ANY (ARRAY[a.carrier])
	WHERE n.id = ANY (ARRAY[a.id]) AND n.status = 'sending' AND n.digest_id = a.carrier
		AND c.generation = a.claim AND c.status <> 'sending'
)
UPDATE pacer.notifications c SET digest_id = '' FROM (SELECT DISTINCT carrier, claim, status FROM asked) a
WHERE c.id = ANY (ARRAY[a.carrier]) AND c.generation = a.claim AND c.status IN ('waiting', 'retrying')`

// queueItems adds itemsSQL to the statement that settles carriers, when some let their items go or end them.
func queueItems(statements *pgx.Batch, requests []settleRequest) {
	var carriers, ids, statuses []string
	var claims, failures []int32
	var waits []int64
	for _, x := range requests {
		status, goes := x.itemsBecome()
		if !goes {
			continue
		}
		failure := int32(0)
		if x.Failure && status == string(notification.StatusRetrying) {
			failure = 1
		}
		for _, id := range x.Items {
			carriers, claims = append(carriers, x.Notification.ID), append(claims, int32(x.Claimed))
			ids = append(ids, id)
			statuses, failures = append(statuses, status), append(failures, failure)
			waits = append(waits, x.Took.Microseconds()+x.RetryAfter.Microseconds())
		}
	}
	if len(ids) > 0 {
		statements.Queue(itemsSQL, carriers, claims, ids, statuses, waits, failures, notification.ReasonDigest)
	}
}

// itemsBecome is the status that the items of a carrier get; false when they stay with it.
func (x settleRequest) itemsBecome() (status string, goes bool) {
	switch {
	case x.stays():
		return "", false
	case x.Disposition == dispatch.Delivered || x.Disposition == dispatch.Failed || x.Disposition == dispatch.Retry:
		return statusOf(x.Disposition), true
	}
	return "waiting", true
}

// stays reports whether a digest comes again as it is: it may have reached somebody, now or before.
func (x settleRequest) stays() bool {
	again := x.Disposition == dispatch.Retry || x.Disposition == dispatch.Returned
	return len(x.Items) > 0 && again && (x.Frozen || !x.Refund)
}

// partFailed returns a grant whose items could not be sorted out.
func (d *deliveries) partFailed(ctx context.Context, g *dispatch.Grant, err error) error {
	back := dispatch.Outcome{Disposition: dispatch.Returned, Refund: true}
	return errors.Join(err, d.unclaim(ctx, g), d.giveBack(ctx, g, back, d.cfg.LostPatience))
}
