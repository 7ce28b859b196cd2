package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
)

// settleSQL writes dispositions, each only under its own claim, and notes the attempts. The wait for a retry is counted
// from the end of the attempt, on the limiter's clock. A retry that would come after
// the notification's expiry ends it as expired. One that is returned keeps the moment of its retry: from then on counts
// how long it may be deferred. The statement returns only what it wrote.
const settleSQL = `
WITH begun AS MATERIALIZED (SELECT clock_timestamp() AS now, ` + limited.SetLockWait + `
), asked AS MATERIALIZED (
	SELECT a.*, begun.now, begun.now + a.retry_us * interval '1 microsecond' AS retry_at
	FROM begun, unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::int[], $8::bool[],
		$10::text[], $11::bigint[], $12::bool[])
	WITH ORDINALITY AS a(id, claim, status, reason, retry_us, failure, untried, counted, reply, took_us, stays, place)
), done AS (
	UPDATE pacer.notifications n SET
		status = CASE WHEN ` + tooLateSQL + ` THEN 'expired' ELSE a.status END,
		reason = CASE WHEN ` + tooLateSQL + ` THEN $9 ELSE a.reason END,
		detail = CASE WHEN ` + tooLateSQL + ` THEN '' ELSE a.reply END,
		not_before = CASE
			WHEN a.status = 'waiting' THEN n.not_before
			WHEN a.status = 'retrying' AND NOT coalesce(` + tooLateSQL + `, false)
			THEN n.admitted_at + a.took_us + a.retry_us END,
		ended_at = CASE
			WHEN a.status NOT IN ('waiting', 'retrying') OR ` + tooLateSQL + `
			THEN a.now END,
		claimed_until = NULL, failures = n.failures + a.failure, attempts = n.attempts - a.untried
	FROM asked a
	WHERE n.id = ANY (ARRAY[a.id]) AND n.generation = a.claim AND n.status = 'sending'
	RETURNING a.place, n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, n.status,
		a.reason AS attempt_reason, a.reply, a.took_us, a.untried, a.counted, n.policy_version, n.zone
), noted AS (
	INSERT INTO pacer.attempts
		(notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, reply, took_us, counted,
		policy_version, zone)
	SELECT id, generation, attempts, user_id, category, admitted_at,
		CASE WHEN status = 'expired' THEN 'retrying' ELSE status END, attempt_reason, reply, took_us, counted,
		policy_version, zone
	FROM done WHERE untried = 0
	ON CONFLICT DO NOTHING
)
SELECT place, status FROM done`

// tooLateSQL is true for a retry that would come after the notification's expiry. A digest that may have reached
// somebody does not expire.
const tooLateSQL = `(a.status = 'retrying' AND n.expires_at <= a.retry_at AND NOT a.stays)`

// settledSQL returns the state of the notifications whose dispositions settleSQL did not write.
const settledSQL = `SELECT id, generation, status, reason FROM pacer.notifications WHERE id = ANY ($1)`

// settleRequest is a grant with its outcome.
type settleRequest struct {
	*dispatch.Grant
	dispatch.Outcome
}

// settleResult says whether the disposition was written, now or before, and which status the notification has.
type settleResult struct {
	written bool
	status  string
}

// statusOf returns the status in the database that a disposition leads to.
func statusOf(d dispatch.Disposition) string {
	switch d {
	case dispatch.Delivered:
		return string(notification.StatusDelivered)
	case dispatch.Failed:
		return string(notification.StatusFailed)
	case dispatch.Retry:
		return string(notification.StatusRetrying)
	case dispatch.Expired:
		return string(notification.StatusExpired)
	case dispatch.Cancelled:
		return string(notification.StatusCancelled)
	case dispatch.Replaced:
		return string(notification.StatusReplaced)
	case dispatch.Returned, dispatch.Forgotten:
	}
	return "waiting"
}

// Settle implements [dispatch.Store]: it settles in the database first, then in the agendas. If the agendas can't be
// reached, the lease ends, and the next claim of the notification corrects them.
func (d *deliveries) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	id := g.Notification.ID
	o.Reason, o.Reply = columns.Storable(o.Reason), columns.Storable(o.Reply)
	result, err := d.settlements.Do(ctx, settleRequest{g, o})
	if err != nil {
		return dispatch.Settlement{}, err
	}
	if !result.written {
		return dispatch.Settlement{Stale: true}, nil
	}
	if result.status == string(notification.StatusExpired) && o.Disposition == dispatch.Retry {
		o.Disposition, o.Reason = dispatch.Expired, notification.ReasonExpired
	}
	settlement, err := d.settleInAgenda(ctx, g, o, d.cfg.LostPatience)
	open := o.Disposition == dispatch.Retry || o.Disposition == dispatch.Returned
	switch {
	case err != nil:
		d.stores.Log.WarnContext(ctx,
			"wrote a delivery's result to Postgres but not to Redis; Redis gets it when the lease ends",
			"notification_id", id, "error", err)
		return dispatch.Settlement{}, nil
	case settlement.Stale && open:
		_, err = d.stores.DB.Exec(ctx, noteReturnedSQL, id)
		return dispatch.Settlement{}, err
	}
	settlement.Stale = false
	return settlement, nil
}

// noteReturnedSQL has the relay put a notification into its backlog.
const noteReturnedSQL = `
INSERT INTO pacer.outbox (key, ids, due_at) VALUES ('~' || $1, ARRAY[$1], clock_timestamp()) ON CONFLICT DO NOTHING`

// extendSQL extends a claim, unless another one has followed it.
const extendSQL = `UPDATE pacer.notifications SET claimed_until = clock_timestamp() + $3::interval
WHERE id = ANY (ARRAY[$1::text]) AND generation = $2 AND status = 'sending'`

// Extend implements [dispatch.Store]. It extends the lease in the agendas: while that holds, nobody else is granted the
// notification. It extends the claim, too, which is what counts when Redis is lost meanwhile: at the same time, so that
// a store that does not respond takes none from the other one.
func (d *deliveries) Extend(ctx context.Context, g *dispatch.Grant) error {
	var inRedis error
	var other sync.WaitGroup
	other.Go(func() { inRedis = d.stores.Agendas.Extend(ctx, g) })
	_, err := d.stores.Changes.Impatient.Exec(ctx, extendSQL, g.Notification.ID, g.Claimed, d.cfg.Lease)
	if err != nil {
		err = limited.Describe("extend the claim of notification "+g.Notification.ID, err)
	}
	other.Wait()
	return errors.Join(inRedis, err)
}

// longestPause bounds the pause between two attempts at a step whose store may be away for a moment.
const longestPause = 250 * time.Millisecond

// settleInAgenda tries until ctx ends: Redis may be away for a moment, or a hash slot of a cluster may be moving. For a
// partition that has lost its state it tries for as long as patience says: the rebuild may have read that the delivery
// is in flight.
func (d *deliveries) settleInAgenda(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome, patience time.Duration,
) (dispatch.Settlement, error) {
	began := time.Now()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		settlement, err := d.stores.Agendas.Settle(ctx, g, o)
		given := errors.Is(err, dispatch.ErrLost) && time.Since(began) >= patience
		if err == nil || given || !wait(ctx, pause) {
			return settlement, err
		}
	}
}

// settleAll runs settleSQL.
func (d *deliveries) settleAll(ctx context.Context, requests []settleRequest) ([]settleResult, error) {
	n := len(requests)
	ids, claims, statuses, reasons := make([]string, n), make([]int32, n), make([]string, n), make([]string, n)
	replies := make([]string, n)
	retry, took, failures, untried := make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n)
	counted, stays := make([]bool, n), make([]bool, n)
	for i, x := range requests {
		ids[i], claims[i] = x.Notification.ID, int32(x.Claimed)
		statuses[i], reasons[i], replies[i] = statusOf(x.Disposition), x.Reason, x.Reply
		retry[i], took[i], counted[i] = x.RetryAfter.Microseconds(), x.Took.Microseconds(), !x.Refund
		stays[i] = x.stays()
		if x.Failure {
			failures[i] = 1
		}
		if x.Disposition == dispatch.Returned || x.Untried {
			untried[i] = 1
		}
	}
	results, statements := make([]settleResult, n), &pgx.Batch{}
	statements.Queue(settleSQL, ids, claims, statuses, reasons, retry, failures, untried, counted,
		notification.ReasonExpired, replies, took, stays).Query(func(rows pgx.Rows) error {
		var place int
		var status string
		_, err := pgx.ForEachRow(rows, []any{&place, &status}, func() error {
			results[place-1] = settleResult{written: true, status: status}
			return nil
		})
		return err
	})
	queueItems(statements, requests)
	err := d.stores.Pool.SendBatch(ctx, statements).Close()
	if err == nil {
		err = d.findSettled(ctx, requests, results)
	}
	if err != nil {
		return nil, limited.Describe("write results", err)
	}
	return results, nil
}

// findSettled fills in the results of the dispositions that were not written now: either they were written before, or
// their claim is not the latest.
func (d *deliveries) findSettled(ctx context.Context, requests []settleRequest, results []settleResult) error {
	var ids []string
	places := map[string][]int{}
	for i, x := range requests {
		if !results[i].written {
			ids = append(ids, x.Notification.ID)
			places[x.Notification.ID] = append(places[x.Notification.ID], i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := d.stores.Pool.Query(ctx, settledSQL, ids)
	if err != nil {
		return err
	}
	var id, status, reason string
	var generation int
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &status, &reason}, func() error {
		for _, i := range places[id] {
			results[i] = settleResult{
				written: generation == requests[i].Claimed && requests[i].ledTo(status, reason),
				status:  status,
			}
		}
		return nil
	})
	return err
}

// ledTo reports whether settleSQL wrote this status and reason for the request. After the lease something else may have
// ended the notification under the same claim.
func (x settleRequest) ledTo(status, reason string) bool {
	if x.Disposition == dispatch.Retry && status == string(notification.StatusExpired) {
		return reason == notification.ReasonExpired
	}
	return status == statusOf(x.Disposition) && reason == x.Reason
}
