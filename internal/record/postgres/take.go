package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/mailbox"
	"github.com/pacer-notify/pacer/internal/notification"
)

// claimLock is the advisory lock that claims share and a rebuild has alone: "claim" in ASCII.
const claimLock = 0x636c61696d

// claimSQL claims what may be sent: what waits, or was claimed by a worker whose lease has ended. The crash of such a
// worker is noted as an attempt. It tells of what it claimed only.
const claimSQL = `
WITH asked AS MATERIALIZED (
	SELECT a.*, a.epoch IS DISTINCT FROM l.epoch AS void
	FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::text[], $9::int[], $10::bigint[])
	WITH ORDINALITY AS a(id, token, admitted_at, deferrals, history, lane, epoch, place)
	LEFT JOIN pacer.lanes l USING (lane)
), claimed AS (
	UPDATE pacer.notifications n SET
		status = 'sending', generation = n.generation + 1, attempts = n.attempts + 1, token = a.token, admitted_at = a.admitted_at,
		claimed_until = clock_timestamp() + $6::interval, crashes = n.crashes + (n.status = 'sending')::int,
		deferrals = greatest(n.deferrals, a.deferrals),
		history = CASE WHEN starts_with(a.history, n.history) THEN a.history ELSE n.history || a.history END
	FROM asked a
	WHERE n.id = ANY (ARRAY[a.id]) AND n.status IN ('waiting', 'retrying', 'sending')
		AND (n.status <> 'sending' OR n.claimed_until < clock_timestamp() OR $8)
		AND n.crashes + (n.status = 'sending')::int < $7
		AND (n.expires_at IS NULL OR n.expires_at > clock_timestamp())
		AND (n.not_before IS NULL OR n.not_before < clock_timestamp() + interval '250 ms')
		AND NOT a.void
		AND NOT EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = ANY (ARRAY[n.user_id])
			AND (n.category = ANY (p.opt_out_categories) OR n.channel = ANY (p.opt_out_channels)))
		AND NOT ` + supersededSQL + `
	RETURNING a.place, n.*
), crashed AS (
	INSERT INTO pacer.attempts (notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason)
	SELECT n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, 'crashed', 'the worker did not report in time'
	FROM claimed c JOIN pacer.notifications n ON n.id = ANY (ARRAY[c.id]) WHERE c.crashes > 0 AND n.status = 'sending'
	ON CONFLICT DO NOTHING
)
SELECT n.place, n.generation, n.attempts, n.failures, n.crashes, n.status, n.token, false, false, 0::float8, false, false, false,` + contentColumns + `
FROM claimed n`

// refusedSQL tells what forbids the claims that claimSQL did not make.
const refusedSQL = `
SELECT a.place, n.generation, n.attempts, n.failures, n.crashes + (n.status = 'sending')::int, n.status, n.token,
	n.ended_at IS NOT NULL, coalesce(n.expires_at <= clock_timestamp(), false),
	coalesce(extract(epoch FROM coalesce(n.claimed_until, n.not_before) - clock_timestamp()), 0)::float8,
	a.epoch IS DISTINCT FROM l.epoch,
	EXISTS (SELECT FROM pacer.preferences p WHERE p.user_id = n.user_id
		AND (n.category = ANY (p.opt_out_categories) OR n.channel = ANY (p.opt_out_channels))),
	` + supersededSQL + `,` + contentColumns + `
FROM unnest($1::text[], $2::int[], $3::bigint[], $4::int[]) AS a(id, lane, epoch, place)
JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id]) LEFT JOIN pacer.lanes l USING (lane)`

// supersededSQL is true of a notification n when a newer one with its collapse key has been accepted, whatever became of that
// one. Redis ends the older sooner, but forgets: within the hour by intention, at once when it is lost. Of two of the same
// moment none is the newer: were each the other's end, nobody would get either.
const supersededSQL = `(n.collapse_key <> '' AND EXISTS (SELECT FROM pacer.notifications newer
	WHERE newer.user_id = ANY (ARRAY[n.user_id]) AND newer.category = ANY (ARRAY[n.category])
		AND newer.collapse_key = ANY (ARRAY[n.collapse_key]) AND newer.collapse_key <> '' AND newer.accepted_at > n.accepted_at))`

const contentColumns = `
	n.user_id, n.category, n.channel, n.target, n.title, n.body, n.data::text, n.override::text, n.traceparent, n.priority, n.send_at, n.expires_at,
	n.collapse_key, n.accepted_at`

// claim asks for a notification that the mailboxes granted.
type claim struct {
	id, token string
	// admittedAt is the limiter's moment in µs; deferrals and history are what the mailbox tells of the waiting before it.
	admittedAt int64
	deferrals  int
	history    string
	// lane, and the epoch of its state that granted it.
	lane  int
	epoch int64
}

// claimed is the answer: a claim that holds, or the state that forbids it.
type claimed struct {
	known, ok                              bool
	generation, attempt, failures, crashes int
	status, token                          string
	ended, expired, void, optedOut         bool
	// superseded by a newer one with the same collapse key.
	superseded   bool
	busyFor      time.Duration
	notification *notification.Notification
}

// Take implements [dispatch.Record]: what the mailboxes grant is claimed in the database, and only then given out.
func (r *Record) Take(ctx context.Context, q dispatch.Question) (dispatch.Answer, error) {
	answer, err := r.boxes.Take(ctx, q)
	switch {
	case errors.Is(err, mailbox.ErrLost):
		return dispatch.Answer{Wait: &dispatch.Wait{For: lostPause}}, nil
	case err != nil || answer.Granted == nil:
		return dispatch.Answer{Wait: answer.Wait}, err
	}
	granted := answer.Granted
	grant := &dispatch.Grant{
		Mailbox: q.Mailbox, Generation: granted.Generation, AdmittedAt: granted.At, StartIn: granted.In,
		AskedAt: granted.AskedAt, Tick: q.Tick, History: granted.History,
		Notification: &notification.Notification{ID: granted.ID},
	}
	c, err := r.claims.Ask(ctx, claim{
		id: granted.ID, token: q.Nonce, admittedAt: granted.At.UnixMicro(), deferrals: granted.Deferrals, history: granted.History,
		lane: q.Lane, epoch: granted.Epoch,
	})
	if err != nil {
		_, back := r.boxes.Settle(context.WithoutCancel(ctx), grant, dispatch.Outcome{Fate: dispatch.Returned, Refund: true})
		return dispatch.Answer{Extra: answer.Extra}, errors.Join(fmt.Errorf("claim notification %s: %w", granted.ID, err), back)
	}
	if !c.ok {
		wait, err := r.decline(ctx, grant, c)
		return dispatch.Answer{Wait: wait, Extra: answer.Extra}, err
	}
	c.notification.ID = granted.ID
	grant.Notification, grant.Claim, grant.Attempt, grant.Failures = c.notification, c.generation, c.attempt, c.failures
	return dispatch.Answer{Grant: grant, Extra: answer.Extra}, nil
}

// lostPause is how long a tick waits before it asks a lane again that has lost its state.
const lostPause = 500 * time.Millisecond

// changedPause is how long a tick waits before it asks again for what could not be claimed a moment ago.
const changedPause = 50 * time.Millisecond

// decline gives a grant back that must not be used, brings the mailboxes to what the database says, and tells when the tick
// is to ask again.
func (r *Record) decline(ctx context.Context, g *dispatch.Grant, c claimed) (*dispatch.Wait, error) {
	again := &dispatch.Wait{}
	outcome := dispatch.Outcome{Refund: true}
	var err error
	switch {
	case !c.known || c.ended:
		outcome.Fate = dispatch.Forgotten
	case c.void:
		// Its lane has been rebuilt since, or is about to be.
		outcome.Fate, again.For = dispatch.Returned, lostPause
	case c.busyFor > 0:
		// Somebody is at it, or was: the lease will tell. Or it is a retry that the mailbox believes to be due.
		outcome.Fate, outcome.RetryAfter, outcome.Reason = dispatch.Retry, c.busyFor+50*time.Millisecond, "not due yet"
	case c.crashes >= r.cfg.MaxCrashes:
		outcome.Fate, outcome.Reason = dispatch.Failed, notification.ReasonCrashLoop
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusFailed, notification.ReasonCrashLoop)
	case c.expired:
		outcome.Fate, outcome.Reason = dispatch.Expired, notification.ReasonExpired
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusExpired, notification.ReasonExpired)
	case c.superseded:
		outcome.Fate, outcome.Reason = dispatch.Replaced, notification.ReasonReplaced
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusReplaced, notification.ReasonReplaced)
	case c.optedOut:
		outcome.Fate, outcome.Reason = dispatch.Cancelled, notification.ReasonOptedOut
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusCancelled, notification.ReasonOptedOut)
	default:
		// What forbade it has gone meanwhile.
		outcome.Fate, again.For = dispatch.Returned, changedPause
	}
	if err != nil {
		return nil, err
	}
	settlement, err := r.boxes.Settle(context.WithoutCancel(ctx), g, outcome)
	if err != nil && !errors.Is(err, mailbox.ErrLost) {
		return nil, fmt.Errorf("give notification %s back: %w", g.Notification.ID, err)
	}
	if settlement.RetryIn > 0 {
		// The mailbox has made the tick serve this retry.
		again.For = settlement.RetryIn
	}
	return again, nil
}

// claimAll runs claimSQL under the lock that a rebuild waits for.
func (r *Record) claimAll(ctx context.Context, asked []claim) ([]claimed, error) {
	n := len(asked)
	ids, tokens, histories := make([]string, n), make([]string, n), make([]string, n)
	moments, deferrals, lanes, epochs := make([]int64, n), make([]int32, n), make([]int32, n), make([]int64, n)
	for i, c := range asked {
		ids[i], tokens[i], histories[i], moments[i], deferrals[i] = c.id, c.token, c.history, c.admittedAt, int32(c.deferrals)
		lanes[i], epochs[i] = int32(c.lane), c.epoch
	}
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	answers := make([]claimed, n)
	batch := &pgx.Batch{} // one round trip, one transaction
	batch.Queue("SELECT pg_advisory_xact_lock_shared($1)", int64(claimLock))
	batch.Queue(claimSQL, ids, tokens, moments, deferrals, histories, r.cfg.Lease, r.cfg.MaxCrashes, mutation("no-fence"), lanes, epochs).
		Query(func(rows pgx.Rows) error {
			return collectClaimed(rows, func(place int, c claimed) {
				c.ok = true
				answers[place-1] = c
			})
		})
	if err := r.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, describe("claim notifications", err)
	}
	if err := r.findRefused(ctx, asked, answers); err != nil {
		return nil, describe("find out why notifications can't be claimed", err)
	}
	return answers, nil
}

// findRefused fills in the answers for what was not claimed now. A claim whose answer was lost is recognised by its token.
func (r *Record) findRefused(ctx context.Context, asked []claim, answers []claimed) error {
	var ids []string
	var lanes, places []int32
	var epochs []int64
	for i, c := range asked {
		if !answers[i].ok {
			ids, lanes, epochs, places = append(ids, c.id), append(lanes, int32(c.lane)), append(epochs, c.epoch), append(places, int32(i+1))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.pool.Query(ctx, refusedSQL, ids, lanes, epochs, places)
	if err != nil {
		return err
	}
	return collectClaimed(rows, func(place int, c claimed) {
		c.ok = c.status == "sending" && c.token == asked[place-1].token
		answers[place-1] = c
	})
}

func collectClaimed(rows pgx.Rows, each func(place int, c claimed)) error {
	defer rows.Close()
	for rows.Next() {
		place, c, err := scanClaimed(rows)
		if err != nil {
			return err
		}
		each(place, c)
	}
	return rows.Err()
}

func scanClaimed(rows pgx.Rows) (place int, c claimed, err error) {
	n := &notification.Notification{}
	var busy float64
	var channel string
	var data, override *string
	var sendAt, expiresAt *time.Time
	c = claimed{known: true, notification: n}
	err = rows.Scan(&place, &c.generation, &c.attempt, &c.failures, &c.crashes, &c.status, &c.token, &c.ended, &c.expired,
		&busy, &c.void, &c.optedOut, &c.superseded, &n.UserID, &n.Category, &channel, &n.To, &n.Title, &n.Body, &data, &override, &n.TraceParent, &n.Priority, &sendAt, &expiresAt,
		&n.CollapseKey, &n.CreatedAt)
	c.busyFor = time.Duration(busy * float64(time.Second))
	n.Channel = notification.Channel(channel)
	n.SendAt, n.ExpiresAt = moment(sendAt), moment(expiresAt)
	n.Data, n.Override = text(data), text(override)
	return place, c, err
}

// moment is the zero time for NULL.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
