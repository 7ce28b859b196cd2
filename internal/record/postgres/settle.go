package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
)

// settleSQL writes results, each only under the claim that it belongs to, and notes the attempt. A retry that would come
// too late is an end.
const settleSQL = `
WITH asked AS (
	SELECT * FROM unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::int[], $8::bool[])
	WITH ORDINALITY AS a(id, claim, status, reason, retry_us, failure, untried, counted, place)
), judged AS (
	SELECT a.id, a.claim, a.retry_us, a.failure, a.untried, a.counted, a.reason AS answer,
		CASE WHEN late.yes THEN 'expired' ELSE a.status END AS status, CASE WHEN late.yes THEN $9 ELSE a.reason END AS reason
	FROM asked a JOIN pacer.notifications n USING (id) CROSS JOIN LATERAL (SELECT coalesce(
		a.status = 'retrying' AND n.expires_at <= clock_timestamp() + a.retry_us * interval '1 microsecond', false) AS yes) late
), done AS (
	UPDATE pacer.notifications n SET
		status = j.status, reason = j.reason, claimed_until = NULL, failures = n.failures + j.failure,
		attempts = n.attempts - j.untried,
		not_before = CASE WHEN j.status = 'retrying' THEN clock_timestamp() + j.retry_us * interval '1 microsecond' END,
		ended_at = CASE WHEN j.status NOT IN ('waiting', 'retrying') THEN clock_timestamp() END
	FROM judged j
	WHERE n.id = j.id AND ((n.generation = j.claim AND n.status = 'sending') OR $10)
	RETURNING n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, n.status, j.answer, j.untried, j.counted
), noted AS (
	INSERT INTO pacer.attempts (notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, counted)
	SELECT id, generation, attempts, user_id, category, admitted_at, CASE WHEN status = 'expired' THEN 'retrying' ELSE status END,
		answer, counted FROM done WHERE untried = 0
	ON CONFLICT DO NOTHING
)
SELECT a.place, d.id IS NOT NULL OR (n.generation = a.claim AND n.status <> 'sending'), coalesce(d.status, n.status)
FROM asked a JOIN pacer.notifications n USING (id) LEFT JOIN done d USING (id)`

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

// statusOf is what a fate makes of a notification.
func statusOf(f dispatch.Fate) string {
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
	case dispatch.Returned, dispatch.Forgotten:
	}
	return "waiting"
}

// Settle implements [dispatch.Record]: the database first, then the mailboxes. What the mailboxes do not learn they find
// out when the lease ends: then the claim of what has ended is declined.
func (r *Record) Settle(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) (dispatch.Settlement, error) {
	id := g.Notification.ID
	s, err := r.results.Ask(ctx, result{id: id, claim: g.Claim, status: statusOf(o.Fate), Outcome: o})
	if err != nil {
		return dispatch.Settlement{}, err
	}
	if !s.written {
		return dispatch.Settlement{Stale: true}, nil
	}
	if s.status == string(notification.StatusExpired) {
		o.Fate, o.Reason = dispatch.Expired, notification.ReasonExpired
	}
	settlement, err := r.boxes.Settle(ctx, g, o)
	open := o.Fate == dispatch.Retry || o.Fate == dispatch.Returned
	switch {
	case errors.Is(err, mailbox.ErrLost):
		return dispatch.Settlement{}, nil // what is open is put back by the rebuild, or found by the relay
	case err != nil:
		r.cfg.Log.WarnContext(ctx, "tell the mailboxes of a result; they learn of it when the lease ends", "notification_id", id, "error", err)
		return dispatch.Settlement{}, nil
	case settlement.Stale && open:
		return dispatch.Settlement{}, r.leaveInOutbox(ctx, []string{id})
	case settlement.Stale:
		// The mailbox gave it to somebody else, or was rebuilt, and so does not count its end.
		if err := r.boxes.AddTotals(ctx, g.Lane, ended(s.status)); err != nil {
			r.cfg.Log.WarnContext(ctx, "count an ended notification; the totals lack one", "notification_id", id, "error", err)
		}
	}
	settlement.Stale = false
	return settlement, nil
}

// ended is one that ended with the status, as totals.
func ended(status string) mailbox.LaneStats {
	t := mailbox.LaneStats{}
	switch notification.Status(status) {
	case notification.StatusDelivered:
		t.Delivered = 1
	case notification.StatusFailed:
		t.Failed = 1
	case notification.StatusExpired:
		t.Expired = 1
	case notification.StatusCancelled:
		t.Cancelled = 1
	case notification.StatusReplaced, notification.StatusScheduled, notification.StatusQueued, notification.StatusDeferred,
		notification.StatusRetrying, notification.StatusSending:
	}
	return t
}

// settleAll runs settleSQL.
func (r *Record) settleAll(ctx context.Context, results []result) ([]settled, error) {
	n := len(results)
	ids, claims, statuses, reasons := make([]string, n), make([]int32, n), make([]string, n), make([]string, n)
	retry, failures, untried, counted := make([]int64, n), make([]int32, n), make([]int32, n), make([]bool, n)
	for i, x := range results {
		ids[i], claims[i], statuses[i], reasons[i] = x.id, int32(x.claim), x.status, x.Reason
		retry[i], counted[i] = x.RetryAfter.Microseconds(), !x.Refund
		if x.Failure {
			failures[i] = 1
		}
		if x.Fate == dispatch.Returned || x.Untried {
			untried[i] = 1
		}
	}
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, settleSQL, ids, claims, statuses, reasons, retry, failures, untried, counted, notification.ReasonExpired,
		mutation("no-fence"))
	if err != nil {
		return nil, describe("write results", err)
	}
	answers := make([]settled, n)
	var place int64
	var s settled
	_, err = pgx.ForEachRow(rows, []any{&place, &s.written, &s.status}, func() error {
		answers[place-1] = s
		return nil
	})
	if err != nil {
		return nil, describe("write results", err)
	}
	return answers, nil
}

// endSQL ends what waits. It tells what was found: whether it was there, and whether it has ended by this.
const endSQL = `
WITH ended AS (
	UPDATE pacer.notifications SET status = $2, reason = $3, ended_at = clock_timestamp(), not_before = NULL
	WHERE id = $1 AND ended_at IS NULL AND status <> 'sending'
	RETURNING id
)
SELECT user_id, EXISTS (SELECT FROM ended) FROM pacer.notifications WHERE id = $1`

// end ends a notification that still waits, in the database and then in its mailbox.
func (r *Record) end(ctx context.Context, id string, status notification.Status, reason string) error {
	bounded, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	var user string
	var done bool
	err := r.pool.QueryRow(bounded, endSQL, id, string(status), reason).Scan(&user, &done)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return notification.ErrNotFound
	case err != nil:
		return describe("end notification "+id, err)
	case !done:
		return notification.ErrNotWaiting
	}
	err = r.boxes.CancelIn(ctx, r.boxes.LaneOf(user), id, reason)
	if err != nil && !errors.Is(err, mailbox.ErrLost) && !errors.Is(err, notification.ErrNotFound) {
		r.cfg.Log.WarnContext(ctx, "take an ended notification out of line; it leaves when it is its turn", "notification_id", id, "error", err)
	}
	return nil
}

// Cancel ends a notification that still waits. It gives [notification.ErrNotFound] or [notification.ErrNotWaiting].
func (r *Record) Cancel(ctx context.Context, id string) error {
	return r.end(ctx, id, notification.StatusCancelled, "cancelled")
}
