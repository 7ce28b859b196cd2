package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
)

// settleSQL writes results, each only under the claim that it belongs to, and notes the attempt. A retry that would
// come too late is an end. It tells of what it wrote only.
const settleSQL = `
WITH asked AS MATERIALIZED (
	SELECT a.*, clock_timestamp() AS now, clock_timestamp() + a.retry_us * interval '1 microsecond' AS retry_at
	FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::int[], $8::bool[])
	WITH ORDINALITY AS a(id, claim, status, reason, retry_us, failure, untried, counted, place)
), done AS (
	UPDATE pacer.notifications n SET
		status = CASE WHEN a.status = 'retrying' AND n.expires_at <= a.retry_at THEN 'expired' ELSE a.status END,
		reason = CASE WHEN a.status = 'retrying' AND n.expires_at <= a.retry_at THEN $9 ELSE a.reason END,
		not_before = CASE WHEN a.status = 'retrying' AND (n.expires_at <= a.retry_at) IS NOT TRUE THEN a.retry_at END,
		ended_at = CASE WHEN a.status NOT IN ('waiting', 'retrying') OR a.status = 'retrying' AND n.expires_at <= a.retry_at THEN a.now END,
		claimed_until = NULL, failures = n.failures + a.failure, attempts = n.attempts - a.untried
	FROM asked a
	WHERE n.id = ANY (ARRAY[a.id]) AND ((n.generation = a.claim AND n.status = 'sending') OR $10)
	RETURNING a.place, n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, n.status, a.reason AS answer, a.untried, a.counted
), noted AS (
	INSERT INTO pacer.attempts (notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, counted)
	SELECT id, generation, attempts, user_id, category, admitted_at, CASE WHEN status = 'expired' THEN 'retrying' ELSE status END,
		answer, counted FROM done WHERE untried = 0
	ON CONFLICT DO NOTHING
)
SELECT place, status FROM done`

// settledSQL tells what has become of results that settleSQL did not write.
const settledSQL = `SELECT id, generation, status, reason FROM pacer.notifications WHERE id = ANY ($1)`

// result is what became of a claim.
type result struct {
	id     string
	claim  int
	status string
	dispatch.Outcome
}

// settled tells whether the result was written, now or before, and what the notification has become.
type settled struct {
	written bool
	status  string
}

// statusOf is what a disposition makes of a notification.
func statusOf(f dispatch.Disposition) string {
	switch f {
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

// Settle implements [dispatch.Store]: the database first, then the agendas. What the agendas do not learn they find
// out when the lease ends: then the claim of what has ended is declined.
func (r *Store) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	id := g.Notification.ID
	s, err := r.results.Ask(ctx, result{id: id, claim: g.Claimed, status: statusOf(o.Disposition), Outcome: o})
	if err != nil {
		return dispatch.Settlement{}, err
	}
	if !s.written {
		return dispatch.Settlement{Stale: true}, nil
	}
	if s.status == string(notification.StatusExpired) && o.Disposition == dispatch.Retry {
		o.Disposition, o.Reason = dispatch.Expired, notification.ReasonExpired
	}
	settlement, err := r.tellAgendas(ctx, g, o)
	open := o.Disposition == dispatch.Retry || o.Disposition == dispatch.Returned
	switch {
	case errors.Is(err, agenda.ErrLost):
		return dispatch.Settlement{}, nil // what is open is put back by the rebuild, or found by the relay
	case err != nil:
		r.cfg.Log.WarnContext(ctx, "tell the agendas of a result; they learn of it when the lease ends",
			"notification_id", id, "error", err)
		return dispatch.Settlement{}, nil
	case settlement.Stale && open:
		return dispatch.Settlement{}, r.leaveInOutbox(ctx, []string{id})
	}
	settlement.Stale = false
	return settlement, nil
}

// Extend implements [dispatch.Store]: while the agendas keep a grant, nobody else can claim it.
func (r *Store) Extend(ctx context.Context, g *dispatch.Grant) error { return r.agendas.Extend(ctx, g) }

// tellPause is the longest pause between two tries to tell the agendas of a result.
const tellPause = 250 * time.Millisecond

// tellAgendas tries for as long as the settlement may take: Redis may be away for a moment, or a slot of a cluster on
// its way to another server.
func (r *Store) tellAgendas(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, tellPause) {
		settlement, err := r.agendas.Settle(ctx, g, o)
		if err == nil || errors.Is(err, agenda.ErrLost) {
			return settlement, err
		}
		if !rest(ctx, pause) {
			return settlement, err
		}
	}
}

// settleAll runs settleSQL.
func (r *Store) settleAll(ctx context.Context, results []result) ([]settled, error) {
	n := len(results)
	ids, claims, statuses, reasons := make([]string, n), make([]int32, n), make([]string, n), make([]string, n)
	retry, failures, untried, counted := make([]int64, n), make([]int32, n), make([]int32, n), make([]bool, n)
	for i, x := range results {
		ids[i], claims[i], statuses[i], reasons[i] = x.id, int32(x.claim), x.status, x.Reason
		retry[i], counted[i] = x.RetryAfter.Microseconds(), !x.Refund
		if x.Failure {
			failures[i] = 1
		}
		if x.Disposition == dispatch.Returned || x.Untried {
			untried[i] = 1
		}
	}
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, settleSQL, ids, claims, statuses, reasons, retry, failures, untried, counted,
		notification.ReasonExpired,
		mutation("no-fence"))
	if err != nil {
		return nil, describe("write results", err)
	}
	answers := make([]settled, n)
	var place int
	var status string
	_, err = pgx.ForEachRow(rows, []any{&place, &status}, func() error {
		answers[place-1] = settled{written: true, status: status}
		return nil
	})
	if err == nil {
		err = r.findSettled(ctx, results, answers)
	}
	if err != nil {
		return nil, describe("write results", err)
	}
	return answers, nil
}

// findSettled fills in the answers for what was not written now: it was before, or the claim is not the latest.
func (r *Store) findSettled(ctx context.Context, results []result, answers []settled) error {
	var ids []string
	places := map[string][]int{}
	for i, x := range results {
		if !answers[i].written {
			ids = append(ids, x.id)
			places[x.id] = append(places[x.id], i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.pool.Query(ctx, settledSQL, ids)
	if err != nil {
		return err
	}
	var id, status, reason string
	var generation int
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &status, &reason}, func() error {
		for _, i := range places[id] {
			answers[i] = settled{
				written: generation == results[i].claim && results[i].gave(status, reason),
				status:  status,
			}
		}
		return nil
	})
	return err
}

// gave tells whether a notification's status and reason are what settleSQL makes of the result. After the lease it may
// have been ended otherwise, under the same claim.
func (x result) gave(status, reason string) bool {
	if x.status == string(notification.StatusRetrying) && status == string(notification.StatusExpired) {
		return reason == notification.ReasonExpired
	}
	return status == x.status && reason == x.Reason
}
