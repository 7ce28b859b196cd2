package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/batch"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/outbox"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// claimSQL claims the notifications that may be sent: those that wait, and those of a worker whose lease has ended. For
// the latter it notes an attempt as crashed. It returns only what it claimed.
const claimSQL = `
WITH asked AS MATERIALIZED (
	SELECT a.*, a.epoch IS DISTINCT FROM l.epoch AS void
	FROM unnest($1::text[], $2::text[], $3::bigint[], $4::int[], $5::text[], $8::int[], $9::bigint[],
		$10::text[], $11::text[])
	WITH ORDINALITY AS a(id, token, admitted_at, deferrals, history, partition, epoch, policy_version,
		zone, place)
	LEFT JOIN pacer.partitions l USING (partition)
), claimed AS (
	UPDATE pacer.notifications n SET
		status = 'sending', generation = n.generation + 1, attempts = n.attempts + 1, token = a.token,
		admitted_at = a.admitted_at, policy_version = a.policy_version, zone = a.zone,
		digest_id = CASE WHEN n.digest_id = n.id THEN n.id ELSE '' END,
		claimed_until = clock_timestamp() + $6::interval, crashes = n.crashes + (n.claimed_until IS NOT NULL)::int,
		deferrals = greatest(n.deferrals, a.deferrals),
		history = CASE WHEN starts_with(a.history, n.history) THEN a.history
			WHEN octet_length(` + earlierHistorySQL + `) <= 8192 THEN ` + earlierHistorySQL + ` || a.history
			ELSE n.history END
	FROM asked a
	WHERE n.id = ANY (ARRAY[a.id]) AND n.status IN ('waiting', 'retrying', 'sending')
		AND (n.status <> 'sending' OR ` + columns.LapsedSQL + `)
		AND n.crashes + (n.claimed_until IS NOT NULL)::int < $7
		AND (n.digest_id = n.id OR n.expires_at IS NULL OR n.expires_at > clock_timestamp())
		AND ` + earlySQL + ` IS NOT TRUE
		AND NOT a.void
		AND NOT ` + columns.OptedOutSQL + `
		AND (n.digest_id = n.id OR NOT ` + columns.SupersededSQL + `)
	RETURNING a.place, n.id, n.generation, n.attempts, n.failures, n.crashes, n.status, n.token,` + columns.ContentColumns + `
), crashed AS (
	INSERT INTO pacer.attempts
		(notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, policy_version, zone)
	SELECT n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, 'crashed',
		'the worker did not report in time', n.policy_version, n.zone
	FROM claimed c JOIN pacer.notifications n ON n.id = ANY (ARRAY[c.id]) WHERE n.claimed_until IS NOT NULL
	ON CONFLICT DO NOTHING
)
SELECT n.place, n.generation, n.attempts, n.failures, n.crashes, n.status, n.token, false, false, 0::float8, false,
	false, false,` + columns.ContentColumns + `
FROM claimed n`

// earlierHistorySQL is that part of a row's history which Redis has forgotten since it was told: whatever stands before
// the first line that Redis tells now, or all of it. The claim keeps it, to 8 KiB. Redis adds lines behind the others
// until they are 4 KiB.
const earlierHistorySQL = `split_part(n.history, split_part(a.history, E'\n', 1), 1)`

// refusedSQL returns, for the claims that claimSQL did not make, what forbade them.
const refusedSQL = `
SELECT a.place, n.generation, n.attempts, n.failures, n.crashes + (n.claimed_until IS NOT NULL)::int, n.status, n.token,
	n.ended_at IS NOT NULL, coalesce(n.expires_at <= clock_timestamp(), false),
	CASE WHEN n.claimed_until IS NOT NULL THEN extract(epoch FROM n.claimed_until - clock_timestamp())
		WHEN ` + earlySQL + ` THEN (n.not_before - a.admitted_at) / 1e6 ELSE 0 END::float8,
	a.epoch IS DISTINCT FROM l.epoch,
	` + columns.OptedOutSQL + `,
	` + columns.SupersededSQL + `,` + columns.ContentColumns + `
FROM unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[], $5::int[]) AS a(id, partition, epoch, admitted_at, place)
JOIN pacer.notifications n ON n.id = ANY (ARRAY[a.id]) LEFT JOIN pacer.partitions l USING (partition)`

// earlySQL is true for a retry that is granted too early: Redis has not heard of it. Only the limiter's clock tells.
// When that was set back since the attempt before, Redis knows how much of the wait is left.
const earlySQL = `(n.not_before > a.admitted_at + 250000 AND a.admitted_at >= n.admitted_at)`

// claimRequest is a grant with what Redis knows of the items that it carries.
type claimRequest struct {
	*dispatch.Grant

	items []*agenda.State
}

// claimResult is a claim that was made, or the state of the notification that forbids it.
type claimResult struct {
	known, ok                              bool
	generation, attempt, failures, crashes int
	status, token                          string
	ended, expired, void, optedOut         bool
	superseded                             bool // by a newer one with the same collapse key
	busyFor                                time.Duration
	notification                           *notification.Notification
	// joined are the items that go with it.
	joined []*notification.Notification
}

// deliveries is the part of the store that claims and settles what the agendas grant.
type deliveries struct {
	stores *seam.Stores
	ends   *outbox.Ends
	cfg    Config

	claims      limited.Joined[claimRequest, claimResult]
	unclaims    limited.Joined[*dispatch.Grant, struct{}]
	settlements limited.Joined[settleRequest, settleResult]
}

func newDeliveries(stores *seam.Stores, ends *outbox.Ends, cfg Config) *deliveries {
	d := &deliveries{stores: stores, ends: ends, cfg: cfg}
	id := func(g *dispatch.Grant) string { return g.Notification.ID }
	d.claims = limited.Join(250, func(ctx context.Context, all []claimRequest) []batch.Outcome[claimResult] {
		return limited.BesideLocked(ctx, stores.DB, all, func(q claimRequest) string { return id(q.Grant) }, d.claimAll)
	})
	d.unclaims = limited.Join(250, func(ctx context.Context, all []*dispatch.Grant) []batch.Outcome[struct{}] {
		return limited.BesideLocked(ctx, stores.DB, all, id, d.unclaimAll)
	})
	d.settlements = limited.Join(250, func(ctx context.Context, all []settleRequest) []batch.Outcome[settleResult] {
		return limited.BesideLocked(ctx, stores.DB, all, func(q settleRequest) string { return q.Notification.ID },
			d.settleAll)
	})
	return d
}

func (d *deliveries) close() {
	d.claims.Close()
	d.unclaims.Close()
	d.settlements.Close()
}

// Take implements [dispatch.Store]: the agendas decide what may go. The caller must claim their grants.
func (d *deliveries) Take(ctx context.Context, request dispatch.TakeRequest) (dispatch.TakeResult, error) {
	return d.stores.Agendas.Take(ctx, request)
}

// Claim implements [dispatch.Store]: it claims a grant of the agendas in the database. Only then may the notification
// be sent.
func (d *deliveries) Claim(ctx context.Context, g *dispatch.Grant) (bool, error) {
	c, err := d.claim(ctx, g)
	if limited.LockedOut(err) { // so nothing was claimed
		later := dispatch.Outcome{Disposition: dispatch.Retry, Reason: "locked", RetryAfter: lockedRetry, Refund: true}
		return false, d.giveBack(ctx, g, later, 0)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("claim notification %s: %w", g.Notification.ID, err), d.unclaim(ctx, g))
		back := dispatch.Outcome{Disposition: dispatch.Returned, Refund: true}
		return false, errors.Join(err, d.giveBack(ctx, g, back, d.cfg.LostPatience))
	}
	if !c.ok {
		return false, d.decline(ctx, g, c)
	}
	c.notification.ID = g.Notification.ID
	g.Notification, g.Claimed, g.Attempt, g.Failures = c.notification, c.generation, c.attempt, c.failures
	if err := d.gather(ctx, g, c.joined); err != nil {
		return false, d.partFailed(ctx, g, err)
	}
	return true, nil
}

// claim tries to claim a grant until Config.ClaimPatience ends: Postgres may be away for a moment. It waits for a
// statement that is under way, which has a time-out of its own: nobody would send what it claims after that.
func (d *deliveries) claim(ctx context.Context, g *dispatch.Grant) (claimResult, error) {
	request := claimRequest{g, d.readItems(ctx, g)}
	tries, cancel := context.WithTimeout(ctx, d.cfg.ClaimPatience)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		c, err := d.claims.Do(context.WithoutCancel(ctx), request)
		if err == nil || errors.Is(err, batch.ErrClosed) || limited.LockedOut(err) || !wait(tries, pause) {
			return c, err
		}
	}
}

// wait pauses. It returns false when the context has ended by then.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

const (
	// lostPause is how long a grant is kept before it is returned when its partition has lost its state.
	lostPause = 500 * time.Millisecond
	// changedPause is how long a grant is kept before it is returned when whatever forbade its claim is over. The
	// notification may be granted again at once.
	changedPause = 50 * time.Millisecond
	// lockedRetry is when a notification is granted anew that another transaction has locked.
	lockedRetry = 500 * time.Millisecond
)

// decline returns a grant that must not be used, and brings its agenda in line with what the database says about the
// notification. When the same grant would come again unchanged, decline waits first, and keeps the worker's capacity
// for that long: otherwise the notification would be granted and declined over and over, as fast as the stores can.
func (d *deliveries) decline(ctx context.Context, g *dispatch.Grant, c claimResult) error {
	outcome, pause := dispatch.Outcome{Refund: true}, time.Duration(0)
	var err error
	switch {
	case !c.known || c.ended:
		outcome.Disposition = dispatch.Forgotten
	case c.void:
		// Its partition has been rebuilt since, or is about to be.
		outcome.Disposition, pause = dispatch.Returned, lostPause
	case c.busyFor > 0:
		// Another worker has the notification until its lease ends. Or it is a retry that only the agenda takes to be
		// due.
		outcome.Disposition, outcome.Reason = dispatch.Retry, "not due yet"
		outcome.RetryAfter = c.busyFor + 50*time.Millisecond
	case c.crashes >= d.cfg.MaxCrashes:
		outcome.Disposition, outcome.Reason = dispatch.Failed, notification.ReasonCrashLoop
		err = d.ends.Write(ctx, g.Notification.ID, notification.StatusFailed, notification.ReasonCrashLoop)
	case c.expired:
		outcome.Disposition, outcome.Reason = dispatch.Expired, notification.ReasonExpired
		err = d.ends.Write(ctx, g.Notification.ID, notification.StatusExpired, notification.ReasonExpired)
	case c.superseded:
		outcome.Disposition, outcome.Reason = dispatch.Replaced, notification.ReasonReplaced
		err = d.ends.Write(ctx, g.Notification.ID, notification.StatusReplaced, notification.ReasonReplaced)
	case c.optedOut:
		outcome.Disposition, outcome.Reason = dispatch.Cancelled, notification.ReasonOptedOut
		err = d.ends.Write(ctx, g.Notification.ID, notification.StatusCancelled, notification.ReasonOptedOut)
	default:
		// Whatever forbade the claim is over.
		outcome.Disposition, pause = dispatch.Returned, changedPause
	}
	if err != nil { // it could not be ended in the database: the worker with the next grant tries again
		outcome, pause = dispatch.Outcome{Disposition: dispatch.Returned, Refund: true}, changedPause
	}
	wait(ctx, pause)
	// It was not claimed, so no rebuild restores it.
	return errors.Join(err, d.giveBack(ctx, g, outcome, 0))
}

// giveBack settles a grant that is not used in the agendas. It tries for as long as a statement may take; if it fails,
// the lease ends instead. patience is for a partition that has lost its state, and with it the grant.
func (d *deliveries) giveBack(
	ctx context.Context, g *dispatch.Grant, o dispatch.Outcome, patience time.Duration,
) error {
	ctx, cancel := limited.Bounded(ctx, d.stores.StatementTimeout)
	defer cancel()
	if _, err := d.settleInAgenda(ctx, g, o, patience); err != nil && !errors.Is(err, dispatch.ErrLost) {
		return fmt.Errorf("return the grant of notification %s: %w", g.Notification.ID, err)
	}
	return nil
}

// claimAll runs claimSQL under the lock that a rebuild waits for.
func (d *deliveries) claimAll(ctx context.Context, grants []claimRequest) ([]claimResult, error) {
	n := len(grants)
	ids, tokens, histories := make([]string, n), make([]string, n), make([]string, n)
	moments, deferrals, partitions, epochs := make([]int64, n), make([]int32, n), make([]int32, n), make([]int64, n)
	versions, zones := make([]string, n), make([]string, n)
	for i, g := range grants {
		ids[i], tokens[i], histories[i] = g.Notification.ID, columns.Token(g.Grant), columns.Storable(g.History)
		moments[i], deferrals[i] = g.AdmittedAt.UnixMicro(), int32(g.Deferrals)
		partitions[i], epochs[i] = int32(g.Partition), g.Epoch
		versions[i], zones[i] = g.Basis.PolicyVersion, g.Basis.Zone
	}
	results := make([]claimResult, n)
	statements := &pgx.Batch{} // one round trip, one transaction
	// A rebuild may have that lock for longer than a claim waits for a row.
	statements.Queue("SELECT pg_advisory_xact_lock_shared($1), "+limited.SetLockWait, int64(seam.ClaimLock))
	statements.Queue(claimSQL, ids, tokens, moments, deferrals, histories, d.cfg.Lease, d.cfg.MaxCrashes,
		partitions, epochs, versions, zones).
		Query(func(rows pgx.Rows) error {
			return collectClaims(rows, func(place int, c claimResult) {
				c.ok = true
				results[place-1] = c
			})
		})
	joined := make([][]*notification.Notification, n)
	queueJoins(statements, grants, joined)
	if err := d.stores.Pool.SendBatch(ctx, statements).Close(); err != nil {
		return nil, limited.Describe("claim notifications", err)
	}
	for i := range results {
		results[i].joined = joined[i]
	}
	if err := d.findRefused(ctx, grants, results); err != nil {
		return nil, limited.Describe("find out why notifications can't be claimed", err)
	}
	return results, nil
}

// findRefused fills in the results of the grants that were not claimed now. Some were claimed before, and the result
// was lost: their token shows that.
func (d *deliveries) findRefused(ctx context.Context, grants []claimRequest, results []claimResult) error {
	var ids []string
	var partitions, places []int32
	var epochs, moments []int64
	for i, g := range grants {
		if !results[i].ok {
			ids, partitions = append(ids, g.Notification.ID), append(partitions, int32(g.Partition))
			epochs, places = append(epochs, g.Epoch), append(places, int32(i+1))
			moments = append(moments, g.AdmittedAt.UnixMicro())
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := d.stores.Pool.Query(ctx, refusedSQL, ids, partitions, epochs, moments, places)
	if err != nil {
		return err
	}
	return collectClaims(rows, func(place int, c claimResult) {
		c.ok = c.status == "sending" && c.token == columns.Token(grants[place-1].Grant)
		c.joined = results[place-1].joined
		results[place-1] = c
	})
}

// collectClaims reads the rows of claimSQL or refusedSQL.
func collectClaims(rows pgx.Rows, add func(place int, c claimResult)) error {
	defer rows.Close()
	for rows.Next() {
		place, c, err := scanClaim(rows)
		if err != nil {
			return err
		}
		add(place, c)
	}
	return rows.Err()
}

// scanClaim reads a row of claimSQL or refusedSQL.
func scanClaim(rows pgx.Rows) (place int, c claimResult, err error) {
	n := &notification.Notification{}
	var busy float64
	var given columns.Content
	c = claimResult{known: true, notification: n}
	err = rows.Scan(given.Into([]any{
		&place, &c.generation, &c.attempt, &c.failures, &c.crashes, &c.status, &c.token, &c.ended, &c.expired, &busy,
		&c.void, &c.optedOut, &c.superseded,
	}, n)...)
	given.Fill(n)
	c.busyFor = time.Duration(busy * float64(time.Second))
	return place, c, err
}

// hurrySQL lets retries be claimed at once.
const hurrySQL = `UPDATE pacer.notifications SET not_before = admitted_at
	WHERE id = ANY ($1) AND status = 'retrying' AND not_before > admitted_at`

// Hurry lets notifications be tried again at once that wait for their next try. The agendas learn of it later, and
// until then grant none of them.
func (d *deliveries) Hurry(ctx context.Context, ids []string) error {
	if _, err := d.stores.Changes.Exec(ctx, hurrySQL, ids); err != nil {
		return limited.Describe("let notifications be tried again at once", err)
	}
	return nil
}
