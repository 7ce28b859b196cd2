package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/store/postgres/columns"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/seam"
)

// endsSQL ends notifications, unless they have ended or are being sent. When the lease of a worker has run out, its
// notification is not being sent any more: it ends, its attempt is noted as crashed, and a late result of the worker is
// refused. For each id the statement returns the user, whether it ended the notification, and whether the notification
// has ended at all. With $5 somebody else than Redis says so: it notes what it ended in the outbox, for
// the relay to take out of its agenda, and ends no digest that may have reached somebody.
const endsSQL = `
WITH begun AS MATERIALIZED (SELECT ` + limited.SetLockWait + `
), told AS MATERIALIZED (
	SELECT e.* FROM begun, unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS e(id, status, reason, detail)
), ended AS (
	UPDATE pacer.notifications n SET status = e.status, reason = e.reason, detail = e.detail,
		ended_at = clock_timestamp(),
		not_before = NULL, claimed_until = NULL, crashes = n.crashes + (n.claimed_until IS NOT NULL)::int
	FROM told e
	WHERE n.id = ANY (ARRAY[e.id]) AND (n.status IN ('waiting', 'retrying') AND (n.digest_id = '' OR NOT $5)
		OR ` + columns.LapsedSQL + `
		OR n.status = 'sending' AND n.digest_id NOT IN ('', n.id) AND NOT $5)
	RETURNING n.id
), crashed AS (
	INSERT INTO pacer.attempts
		(notification_id, generation, attempt, user_id, category, admitted_at, outcome, reason, policy_version, zone)
	SELECT n.id, n.generation, n.attempts, n.user_id, n.category, n.admitted_at, 'crashed',
		'the worker did not report in time', n.policy_version, n.zone
	FROM ended d JOIN pacer.notifications n ON n.id = ANY (ARRAY[d.id]) WHERE n.claimed_until IS NOT NULL
	ON CONFLICT DO NOTHING
), noted AS (
	INSERT INTO pacer.outbox (key, ids) SELECT '~' || id, ARRAY[id] FROM ended WHERE $5 ON CONFLICT DO NOTHING
)
SELECT t.id, coalesce(n.user_id, ''), d.id IS NOT NULL, n.id IS NULL OR n.ended_at IS NOT NULL OR d.id IS NOT NULL
FROM told t LEFT JOIN ended d USING (id) LEFT JOIN pacer.notifications n ON n.id = ANY (ARRAY[t.id])`

// endResult is what became of an end that was to be written.
type endResult struct {
	id string
	// userID is empty for a notification that the database does not know.
	userID string
	// now is true when this statement ended it; final when it has ended, now or before, or is unknown.
	now, final bool
}

// endAll runs endsSQL.
func endAll(ctx context.Context, db limited.Querier, noted bool, ends ...agenda.End) ([]endResult, error) {
	ids, statuses := make([]string, len(ends)), make([]string, len(ends))
	reasons, details := make([]string, len(ends)), make([]string, len(ends))
	for i, end := range ends {
		ids[i], statuses[i] = end.ID, string(end.Status)
		reasons[i], details[i] = columns.Storable(end.Reason), columns.Storable(end.Detail)
	}
	rows, err := db.Query(ctx, endsSQL, ids, statuses, reasons, details, noted)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a endResult, err error) {
		return a, row.Scan(&a.id, &a.userID, &a.now, &a.final)
	})
}

// Ends writes ends into Postgres, and takes what has ended out of its agenda.
type Ends struct {
	stores *seam.Stores
	// removing are the removals of ended notifications from their agendas that are under way.
	removing sync.WaitGroup
}

// NewEnds makes an Ends. Close it after use.
func NewEnds(stores *seam.Stores) *Ends { return &Ends{stores: stores} }

// Close waits for what is under way.
func (e *Ends) Close() { e.removing.Wait() }

// Write ends one notification in Postgres alone, unless it has ended.
func (e *Ends) Write(ctx context.Context, id string, status notification.Status, reason string) error {
	_, err := e.endNoted(ctx, false, agenda.End{ID: id, Status: status, Reason: reason})
	return err
}

// endNoted ends one notification. When the end is noted, the relay takes the notification out of its agenda.
func (e *Ends) endNoted(ctx context.Context, noted bool, end agenda.End) (endResult, error) {
	ctx, cancel := limited.Bounded(ctx, e.stores.StatementTimeout)
	defer cancel()
	results, err := endAll(ctx, e.stores.Pool, noted, end)
	if err != nil {
		return endResult{}, limited.Describe("end notification "+end.ID, err)
	}
	return results[0], nil
}

// End ends a notification that still waits, in Postgres and then in its agenda. Else it returns
// [notification.ErrNotFound] or [notification.ErrNotWaiting].
func (e *Ends) End(ctx context.Context, id string, status notification.Status, reason string) error {
	var result endResult
	err := e.stores.Changes.Do(ctx, func() (err error) {
		result, err = e.endNoted(ctx, true, agenda.End{ID: id, Status: status, Reason: reason})
		return err
	})
	switch {
	case err != nil:
		return err
	case result.userID == "":
		return notification.ErrNotFound
	case !result.now:
		return notification.ErrNotWaiting
	}
	e.removeEnded(ctx, e.stores.Agendas.PartitionOf(result.userID), id, reason)
	return nil
}

// EndAll cancels those of some notifications that still wait, and returns how many. One that another transaction has
// locked does not keep the others waiting.
func (e *Ends) EndAll(ctx context.Context, ids []string, reason string) (n int, err error) {
	var locked error
	for _, id := range ids {
		err := e.End(ctx, id, notification.StatusCancelled, reason)
		switch {
		case err == nil:
			n++
		case limited.LockedOut(err):
			locked = err
		case !errors.Is(err, notification.ErrNotWaiting) && !errors.Is(err, notification.ErrNotFound):
			return n, err
		}
	}
	return n, locked
}

// removeEnded removes a notification that has ended from its agenda. It waits for Redis for PlacePatience at
// most: the caller needs only Postgres, and what is left is done in the background, or by the relay.
func (e *Ends) removeEnded(ctx context.Context, partition int, id, reason string) {
	removed := make(chan struct{})
	e.removing.Go(func() {
		defer close(removed)
		e.remove(context.WithoutCancel(ctx), partition, id, reason)
	})
	patience := time.NewTimer(e.stores.PlacePatience)
	defer patience.Stop()
	select {
	case <-removed:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// remove removes a notification that has ended from its agenda, and its note from the outbox. If the process dies
// before that, the relay does it. It also does where the notification is not in its agenda: then it may still be on its
// way from the process that accepted it, and the relay looks again once it has arrived; or the partition is being
// rebuilt by a process that has read it before it ended.
func (e *Ends) remove(ctx context.Context, partition int, id, reason string) {
	if err := e.stores.Agendas.CancelIn(ctx, partition, id, reason); err != nil {
		return
	}
	if _, err := e.stores.DB.Exec(context.WithoutCancel(ctx), finishSQL, []string{"~" + id}); err != nil {
		e.stores.Log.WarnContext(ctx,
			"could not note that an ended notification is out of its agenda; the relay will check it",
			"notification_id", id, "error", err)
	}
}

const (
	// endsBatch is how many ends of a partition are written at a time.
	endsBatch = 500
	// endPartitions is for how many partitions ends are written at once.
	endPartitions = 8
)

// WriteDecided writes the ends that the agendas of these partitions decided by themselves. A partition whose Redis is
// away does not hold up the others.
func (e *Ends) WriteDecided(ctx context.Context, partitions []int) error {
	faults := make([]error, len(partitions))
	var group errgroup.Group
	group.SetLimit(endPartitions)
	for i, partition := range partitions {
		group.Go(func() error {
			faults[i] = e.writeDecidedIn(ctx, partition)
			return nil
		})
	}
	_ = group.Wait() // each partition has its own fault
	return errors.Join(faults...)
}

// writeDecidedIn writes the ends of one partition. The agenda forgets an end once the notification has ended in the
// database. While a worker has a claim, the end stays, and a later round writes it unless the worker's result is an
// end.
func (e *Ends) writeDecidedIn(ctx context.Context, partition int) error {
	return e.stores.Agendas.EachEnds(ctx, partition, endsBatch, func(ends []agenda.End) error {
		results, err := e.writeAll(ctx, ends)
		if err != nil {
			return err
		}
		var known []string
		for _, a := range results {
			if a.final {
				known = append(known, a.id)
			}
		}
		return e.stores.Agendas.Acknowledge(ctx, partition, known)
	})
}

// writeAll writes some ends of one partition. One that Postgres refuses has no result, and so comes again.
func (e *Ends) writeAll(ctx context.Context, ends []agenda.End) ([]endResult, error) {
	results := make([]endResult, 0, len(ends))
	for i, o := range limited.BesideLocked(ctx, e.stores.DB, ends, func(end agenda.End) string { return end.ID },
		func(ctx context.Context, part []agenda.End) ([]endResult, error) {
			return endAll(ctx, e.stores.Pool, false, part...)
		}) {
		switch {
		case o.Err == nil:
			results = append(results, o.Result)
		case limited.LockedOut(o.Err): // Redis keeps it
		case limited.ValueRefused(o.Err):
			e.stores.Log.WarnContext(ctx, "Postgres refused the end of a notification; Redis keeps the end, and pacer writes it again later",
				"notification_id", ends[i].ID, "error", o.Err)
		default:
			doing := "write the ends of " + plural.Of(len(ends), "notification", "notifications")
			return nil, limited.Describe(doing, o.Err)
		}
	}
	return results, nil
}
