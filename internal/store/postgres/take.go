package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
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
	WITH ORDINALITY AS a(id, token, admitted_at, deferrals, history, partition, epoch, place)
	LEFT JOIN pacer.partitions l USING (partition)
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
		AND NOT ` + optedOutSQL + `
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
	` + optedOutSQL + `,
	` + supersededSQL + `,` + contentColumns + `
FROM unnest($1::text[], $2::int[], $3::bigint[], $4::int[]) AS a(id, partition, epoch, place)
JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id]) LEFT JOIN pacer.partitions l USING (partition)`

// supersededSQL is true of a notification n when a newer one with its collapse key has been accepted, whatever became
// of that one. Redis ends the older sooner, but forgets: within the hour by intention, at once when it is lost. Of two
// of the same moment none is the newer: were each the other's end, nobody would get either.
const supersededSQL = `(n.collapse_key <> '' AND EXISTS (SELECT FROM pacer.notifications newer
	WHERE newer.user_id = ANY (ARRAY[n.user_id]) AND newer.category = ANY (ARRAY[n.category])
		AND newer.collapse_key = ANY (ARRAY[n.collapse_key]) AND newer.collapse_key <> '' AND newer.accepted_at > n.accepted_at))`

const contentColumns = `
	n.user_id, n.category, n.channel, n.target, n.title, n.body, n.data::text, n.override::text, n.traceparent, n.priority, n.send_at, n.expires_at,
	n.collapse_key, n.accepted_at`

// claim asks for a notification that the agendas granted.
type claim struct {
	id, token string
	// admittedAt is the limiter's moment in µs; deferrals and history are what the agenda tells of the waiting before
	// it.
	admittedAt int64
	deferrals  int
	history    string
	// partition, and the epoch of its state that granted it.
	partition int
	epoch     int64
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

// Serve implements [dispatch.Store]: the agendas decide who may go. What they grant is to be claimed.
func (r *Store) Serve(ctx context.Context, round dispatch.Round) (dispatch.Reply, error) {
	return r.agendas.Serve(ctx, round)
}

// Claim implements [dispatch.Store]: what the agendas grant is claimed in the database, and only then delivered.
func (r *Store) Claim(ctx context.Context, g *dispatch.Grant) (bool, error) {
	c, err := r.askClaim(ctx, g)
	if err != nil {
		// Should it be claimed all the same, it comes when that claim's lease has ended.
		back := r.giveBack(ctx, g, dispatch.Outcome{Disposition: dispatch.Returned, Refund: true})
		return false, errors.Join(fmt.Errorf("claim notification %s: %w", g.Notification.ID, err), back)
	}
	if !c.ok {
		return false, r.decline(ctx, g, c)
	}
	c.notification.ID = g.Notification.ID
	g.Notification, g.Claimed, g.Attempt, g.Failures = c.notification, c.generation, c.attempt, c.failures
	return true, nil
}

// claimPause is the longest pause between two tries to claim.
const claimPause = 250 * time.Millisecond

// askClaim asks for a claim again and again, for as long as the patience lasts: Postgres may be away for a moment. A
// claim whose answer was lost is recognised by its token.
func (r *Store) askClaim(ctx context.Context, g *dispatch.Grant) (claimed, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.ClaimPatience)
	defer cancel()
	asked := claim{
		id: g.Notification.ID, token: token(g), admittedAt: g.AdmittedAt.UnixMicro(), deferrals: g.Deferrals,
		history:   g.History,
		partition: g.Partition, epoch: g.Epoch,
	}
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, claimPause) {
		c, err := r.claims.Ask(ctx, asked)
		if err == nil || errors.Is(err, batch.ErrClosed) || !rest(ctx, pause) {
			return c, err
		}
	}
}

// rest waits; false when the context ends before.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// token names a grant: asked for twice, because the answer was lost, it is claimed once.
func token(g *dispatch.Grant) string {
	return fmt.Sprintf("%d.%d.%d", g.Epoch, g.Generation, g.AdmittedAt.UnixMicro())
}

// lostPause is how long a grant of a partition that has lost its state since is kept before it is given back.
const lostPause = 500 * time.Millisecond

// changedPause is how long a grant is kept that could not be claimed a moment ago. What is given back may be granted at
// once.
const changedPause = 50 * time.Millisecond

// decline gives a grant back that must not be used, and brings the agendas to what the database says. What is to come
// again unchanged is kept for a while before, together with the room of its delivery: it must not be granted and
// declined in a circle as fast as the stores can.
func (r *Store) decline(ctx context.Context, g *dispatch.Grant, c claimed) error {
	outcome, pause := dispatch.Outcome{Refund: true}, time.Duration(0)
	var err error
	switch {
	case !c.known || c.ended:
		outcome.Disposition = dispatch.Forgotten
	case c.void:
		// Its partition has been rebuilt since, or is about to be.
		outcome.Disposition, pause = dispatch.Returned, lostPause
	case c.busyFor > 0:
		// Somebody is at it, or was: the lease will tell. Or it is a retry that the agenda believes to be due.
		outcome.Disposition, outcome.Reason = dispatch.Retry, "not due yet"
		outcome.RetryAfter = c.busyFor + 50*time.Millisecond
	case c.crashes >= r.cfg.MaxCrashes:
		outcome.Disposition, outcome.Reason = dispatch.Failed, notification.ReasonCrashLoop
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusFailed, notification.ReasonCrashLoop)
	case c.expired:
		outcome.Disposition, outcome.Reason = dispatch.Expired, notification.ReasonExpired
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusExpired, notification.ReasonExpired)
	case c.superseded:
		outcome.Disposition, outcome.Reason = dispatch.Replaced, notification.ReasonReplaced
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusReplaced, notification.ReasonReplaced)
	case c.optedOut:
		outcome.Disposition, outcome.Reason = dispatch.Cancelled, notification.ReasonOptedOut
		_, err = r.endOne(ctx, g.Notification.ID, notification.StatusCancelled, notification.ReasonOptedOut)
	default:
		// What forbade it has gone meanwhile.
		outcome.Disposition, pause = dispatch.Returned, changedPause
	}
	if err != nil { // the database does not have it ended: whoever is granted it next tries again
		outcome, pause = dispatch.Outcome{Disposition: dispatch.Returned, Refund: true}, changedPause
	}
	rest(ctx, pause)
	return errors.Join(err, r.giveBack(ctx, g, outcome))
}

// giveBack tells the agendas what becomes of a grant that is not used, for as long as a statement may take. What they
// do not learn they find out when the lease ends. A partition that has lost its state has nothing to be told.
func (r *Store) giveBack(ctx context.Context, g *dispatch.Grant, o dispatch.Outcome) error {
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	if _, err := r.tellAgendas(ctx, g, o); err != nil && !errors.Is(err, dispatch.ErrLost) {
		return fmt.Errorf("give notification %s back: %w", g.Notification.ID, err)
	}
	return nil
}

// claimAll runs claimSQL under the lock that a rebuild waits for.
func (r *Store) claimAll(ctx context.Context, asked []claim) ([]claimed, error) {
	n := len(asked)
	ids, tokens, histories := make([]string, n), make([]string, n), make([]string, n)
	moments, deferrals, partitions, epochs := make([]int64, n), make([]int32, n), make([]int32, n), make([]int64, n)
	for i, c := range asked {
		ids[i], tokens[i], histories[i], moments[i], deferrals[i] = c.id, c.token, c.history, c.admittedAt,
			int32(c.deferrals)
		partitions[i], epochs[i] = int32(c.partition), c.epoch
	}
	ctx, cancel := bounded(ctx, r.cfg.StatementTimeout)
	defer cancel()
	answers := make([]claimed, n)
	statements := &pgx.Batch{} // one round trip, one transaction
	statements.Queue("SELECT pg_advisory_xact_lock_shared($1)", int64(claimLock))
	statements.Queue(claimSQL, ids, tokens, moments, deferrals, histories, r.cfg.Lease, r.cfg.MaxCrashes,
		mutation("no-fence"), partitions, epochs).
		Query(func(rows pgx.Rows) error {
			return collectClaimed(rows, func(place int, c claimed) {
				c.ok = true
				answers[place-1] = c
			})
		})
	if err := r.pool.SendBatch(ctx, statements).Close(); err != nil {
		return nil, describe("claim notifications", err)
	}
	if err := r.findRefused(ctx, asked, answers); err != nil {
		return nil, describe("find out why notifications can't be claimed", err)
	}
	return answers, nil
}

// findRefused fills in the answers for what was not claimed now. A claim whose answer was lost is recognised by its
// token.
func (r *Store) findRefused(ctx context.Context, asked []claim, answers []claimed) error {
	var ids []string
	var partitions, places []int32
	var epochs []int64
	for i, c := range asked {
		if !answers[i].ok {
			ids, partitions = append(ids, c.id), append(partitions, int32(c.partition))
			epochs, places = append(epochs, c.epoch), append(places, int32(i+1))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := r.pool.Query(ctx, refusedSQL, ids, partitions, epochs, places)
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
	err = rows.Scan(&place, &c.generation, &c.attempt, &c.failures, &c.crashes, &c.status, &c.token, &c.ended,
		&c.expired,
		&busy, &c.void, &c.optedOut, &c.superseded, &n.UserID, &n.Category, &channel, &n.To, &n.Title, &n.Body, &data,
		&override, &n.TraceParent, &n.Priority, &sendAt, &expiresAt,
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
